"""Listeners with TLS whose hostnames overlap get a condition."""

import pytest

from support.builders.objects import certificate, gateway, https, keyed, listener_set
from varnish_gateway.api import Key
from varnish_gateway.translate import Translator
from varnish_gateway.translate.hostnames import wider

GW = Key("Gateway", "default", "gw")
SET = Key("ListenerSet", "default", "set")
OPEN = {"allowedListeners": {"namespaces": {"from": "All"}}}


def overlapping(status) -> dict[str, str]:
    """Return the messages of the condition, by listener; all of them have the one reason."""
    found = {
        listener.name: each
        for listener in status.listeners
        for each in listener.conditions
        if each.type == "OverlappingTLSConfig"
    }
    assert {(each.status, each.reason) for each in found.values()} <= {("True", "OverlappingHostnames")}
    return {name: each.message for name, each in found.items()}


def overlapping_names(*listeners: dict) -> list[str]:
    delta = Translator(assume_class=True).update(keyed(gateway("gw", *listeners), certificate()))
    return list(overlapping(delta.statuses[GW]))


def plain(name: str, hostname: str) -> dict:
    return {"name": name, "port": 80, "protocol": "HTTP", "hostname": hostname}


@pytest.mark.parametrize(
    ("hostname", "expected"),
    [
        ("a.b.c", ["*.b.c", "*.c", "*"]),
        ("*.b.c", ["*.c", "*"]),
        ("*.c", ["*"]),
        ("c", ["*"]),
        ("*", []),
    ],
)
def test_wider_hostnames(hostname: str, expected: list[str]):
    assert list(wider(hostname)) == expected


def test_the_listeners_concerned_have_it_and_no_others():
    a = https("a", hostname="foo.example.com")
    b = https("b", hostname="foo.example.org")
    c = https("c", hostname="*.example.com")
    assert overlapping_names(a, b, c) == ["a", "c"]
    assert overlapping_names(a, b) == []
    assert overlapping_names(a, b, https("any")) == ["a", "b", "any"]


def test_wildcards_overlap_at_any_depth():
    deep = https("deep", hostname="*.a.b.example.com")
    assert overlapping_names(deep, https("wide", hostname="*.example.com")) == ["deep", "wide"]
    assert overlapping_names(deep, https("beside", hostname="*.b.example.org")) == []


def test_other_ports_and_plain_listeners_do_not_overlap():
    assert (
        overlapping_names(https("a", hostname="foo.example.com"), https("c", hostname="*.example.com", port=8443)) == []
    )
    assert overlapping_names(plain("a", "foo.example.com"), plain("c", "*.example.com")) == []


def test_the_same_hostname_twice_is_a_conflict_instead():
    assert overlapping_names(https("a", hostname="a.example.com"), https("b", hostname="a.example.com")) == []


def test_a_listener_of_a_set_overlaps_with_one_of_the_gateway_until_it_goes():
    """The types of ListenerSets don't have the condition."""
    translator = Translator(assume_class=True)
    own = gateway("gw", https("own", hostname="*.example.com"), **OPEN)
    first = translator.update(keyed(own, certificate(), listener_set("set", https("one", hostname="a.example.com"))))
    assert overlapping(first.statuses[GW]) == {
        "own": "another listener on port 443 has a hostname that overlaps with this one's (*.example.com); a client "
        "that reuses a connection of one of them for a host of the other is answered with 421"
    }
    assert overlapping(first.statuses[SET]) == {}
    gone = translator.update({SET: None})
    assert overlapping(gone.statuses[GW]) == {}
