"""Forwarding headers, and paths that a Gateway merges or rejects."""

import pytest

from support.http.scripted_origin import ScriptedOrigin, answer
from support.varnish.ghost import Config, GhostHarness, backend, prefix, route, to
from varnish_gateway.ir import wire

SENT = [
    ("X-Forwarded-For", "6.6.6.6, 192.0.2.1"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Host", "public.org"),
    ("X_Forwarded_Port", "443"),
    ("Forwarded", 'for=6.6.6.6, for="[2001:db8::1]";proto=https'),
]


def received(
    ghost: GhostHarness, rules: wire.RequestRules | None, sent: list[tuple[str, str]] = SENT
) -> dict[str, str]:
    """Return the forwarding headers that a backend receives."""
    with ScriptedOrigin(answer()) as origin:
        config = Config([route("r", to(backend("pool")))], {"pool": [origin.endpoint]}, requests=rules)
        assert ghost.reload(config).status == 200
        assert ghost.get(headers=sent).status == 200
    lines = (line.partition(": ") for line in origin.requests[0].decode().split("\r\n"))
    return {name.lower(): value for name, _, value in lines if "forwarded" in name.lower()}


def test_by_default_no_forwarding_header_is_believed_and_none_contradicts_another(ghost):
    got = received(ghost, None)
    assert got["x-forwarded-for"] == "6.6.6.6, 192.0.2.1, 127.0.0.1"
    assert got["x-forwarded-proto"] == "http"
    assert "forwarded" not in got


def test_without_trusted_hops_only_what_the_gateway_knows_remains(ghost):
    expected = {"x-forwarded-for": "127.0.0.1", "x-forwarded-proto": "http"}
    assert received(ghost, wire.RequestRules(trusted_hops=0)) == expected
    assert received(ghost, wire.RequestRules(trusted_ranges=("10.0.0.0/8", "::1/128"))) == expected


@pytest.mark.parametrize(
    "rules",
    [
        wire.RequestRules(trusted_hops=1),
        wire.RequestRules(trusted_ranges=("10.0.0.0/8", "127.0.0.0/8")),
    ],
)
def test_what_a_trusted_hop_has_written_remains(ghost, rules):
    got = received(ghost, rules)
    assert got["x-forwarded-for"] == "192.0.2.1, 127.0.0.1"
    assert (got["x-forwarded-proto"], got["x-forwarded-host"]) == ("https", "public.org")
    assert got["forwarded"] == 'for="[2001:db8::1]";proto=https, for=127.0.0.1;proto=https'


def test_trusted_hops_are_followed_to_the_first_stranger(ghost):
    sent = [("X-Forwarded-For", "6.6.6.6, 192.0.2.1, 10.0.0.3")]
    rules = wire.RequestRules(trusted_ranges=("10.0.0.0/8", "127.0.0.1/32"))
    assert received(ghost, rules, sent)["x-forwarded-for"] == "192.0.2.1, 10.0.0.3, 127.0.0.1"
    hops = wire.RequestRules(trusted_hops=2)
    assert received(ghost, hops, sent)["x-forwarded-for"] == "192.0.2.1, 10.0.0.3, 127.0.0.1"
    assert received(ghost, hops, [])["x-forwarded-for"] == "127.0.0.1"


def test_a_restart_and_a_second_routing_sanitise_nothing_again(ghost):
    ghost.load_vcl('sub vcl_recv { if (req.restarts == 0) { return (restart); } set req.url = req.url + "x"; }')
    got = received(ghost, wire.RequestRules(trusted_hops=1))
    ghost.load_vcl()
    assert got["x-forwarded-for"] == "192.0.2.1, 127.0.0.1"
    assert got["x-forwarded-proto"] == "https"


def test_a_header_with_an_open_quote_is_removed(ghost):
    got = received(ghost, wire.RequestRules(trusted_hops=1), [("Forwarded", 'for="1, for=2')])
    assert "forwarded" not in got


ESI = "sub vcl_backend_response { set beresp.do_esi = true; }"


def received_by_parts(ghost: GhostHarness, rules: wire.RequestRules | None) -> list[dict[str, str]]:
    """Return the forwarding headers that a backend receives for a page, its part, and a part of that."""
    pages = [answer(200, b'<esi:include src="/%d"/>' % level) for level in (1, 2)]
    with ScriptedOrigin(*pages, answer(200, b"end")) as origin:
        config = Config([route("r", to(backend("pool")))], {"pool": [origin.endpoint]}, requests=rules)
        assert ghost.reload(config).status == 200
        ghost.load_vcl(ESI)
        assert ghost.get(headers=SENT).body == b"end"
        ghost.load_vcl()
    heads = [[line.partition(": ") for line in one.decode().split("\r\n")] for one in origin.requests]
    return [{name.lower(): value for name, _, value in head if "forwarded" in name.lower()} for head in heads]


@pytest.mark.parametrize(
    "rules",
    [
        None,
        wire.RequestRules(trusted_hops=0),
        wire.RequestRules(trusted_ranges=("10.0.0.0/8",)),
        wire.RequestRules(trusted_hops=1),
        wire.RequestRules(trusted_hops=2),
    ],
)
def test_parts_of_a_page_have_the_forwarding_headers_of_the_page(ghost, rules):
    page, part, nested = received_by_parts(ghost, rules)
    assert (part, nested) == (page, page)


ALL = wire.RequestRules(merge_slashes=True, reject=("%2F", "%5C", "..;"))


@pytest.mark.parametrize(
    ("path", "rules", "target"),
    [
        ("/a//b", None, "/a//b"),
        ("/a%2Fb/%5c/..;x", None, "/a%2Fb/%5c/..;x"),
        ("//a///b?c=//d", ALL, "/a/b?c=//d"),
        ("/a//../b", ALL, "/b"),
        ("/a%2fb", ALL, None),
        ("/a%5Cb", ALL, None),
        ("/a/..;/b", ALL, None),
        ("/a/%2e%2E;x=1/b", ALL, None),
        ("/a?next=%2F..;", ALL, "/a?next=%2F..;"),
        ("/a..;b/x..;", ALL, "/a..;b/x..;"),
    ],
)
def test_paths_that_backends_could_read_differently(ghost, path, rules, target):
    with ScriptedOrigin(answer()) as origin:
        rule = to(backend("pool"), matches=[prefix("/")])
        ghost.reload(Config([route("r", rule)], {"pool": [origin.endpoint]}, requests=rules))
        assert ghost.get(path).status == (400 if target is None else 200)
    assert [request.split(b" ")[1].decode() for request in origin.requests] == ([] if target is None else [target])
