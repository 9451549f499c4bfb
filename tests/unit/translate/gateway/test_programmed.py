import msgspec

from support.builders.objects import gateway, keyed, listener_set
from varnish_gateway import ir
from varnish_gateway.api import Key
from varnish_gateway.translate import Translator, with_parent_programmed, with_programmed
from varnish_gateway.translate.conditions import MESSAGE_LIMIT

MIXED = gateway("gw", {"name": "http", "port": 80, "protocol": "HTTP"}, {"name": "tcp", "port": 81, "protocol": "TCP"})


def status() -> ir.GatewayStatus:
    return Translator(assume_class=True).update(keyed(MIXED)).statuses[Key("Gateway", "default", "gw")]


def programmed(of: ir.GatewayStatus | ir.ListenerStatus) -> tuple[str, str, str]:
    (found,) = (each for each in of.conditions if each.type == "Programmed")
    return found.status, found.reason, found.message


def test_served_gateway_is_programmed_with_addresses():
    address = ir.StatusAddress("IPAddress", "192.0.2.1")
    got = with_programmed(status(), served=True, addresses=[address])
    assert got.addresses == (address,)
    assert programmed(got) == ("True", "Programmed", "")
    assert programmed(got.listeners[0]) == ("True", "Programmed", "")


def test_listener_rejected_by_translation_stays_rejected():
    got = with_programmed(status(), served=True)
    assert programmed(got.listeners[1])[:2] == ("False", "Invalid")


def test_unserved_gateway_has_the_reason():
    got = with_programmed(status(), served=False, message="VCL does not compile")
    assert programmed(got) == ("False", "Pending", "VCL does not compile")
    assert programmed(got.listeners[0]) == ("False", "Pending", "VCL does not compile")


def test_a_message_is_no_longer_than_the_api_server_takes():
    got = with_programmed(status(), served=False, message="x" * 40_000)
    assert len(programmed(got)[2]) == MESSAGE_LIMIT


def test_status_of_many_listeners_with_a_long_message_can_be_stored():
    many = gateway("gw", *({"name": f"p{port}", "port": port, "protocol": "HTTP"} for port in range(8000, 8064)))
    translated = Translator(assume_class=True).update(keyed(many)).statuses[Key("Gateway", "default", "gw")]
    got = with_programmed(translated, served=False, message="x" * 40_000)
    assert len(got.listeners) == 64
    assert len(msgspec.json.encode(got)) < 200_000


def test_a_reason_of_the_gateway_is_not_one_of_its_listeners():
    got = with_programmed(status(), served=False, reason="AddressNotUsable", message="192.0.2.1 is not to be had")
    assert programmed(got) == ("False", "AddressNotUsable", "192.0.2.1 is not to be had")
    assert programmed(got.listeners[0]) == ("False", "Pending", "192.0.2.1 is not to be had")
    assert programmed(with_programmed(status(), served=False, reason="Invalid").listeners[0])[1] == "Invalid"


def test_only_programmed_changes():
    before, after = status(), with_programmed(status(), served=True)
    assert [each for each in before.conditions if each.type != "Programmed"] == [
        each for each in after.conditions if each.type != "Programmed"
    ]


def test_a_listener_set_is_programmed_with_its_gateway():
    allowing = gateway(allowedListeners={"namespaces": {"from": "Same"}})
    listeners = (
        {"name": "one", "port": 80, "protocol": "HTTP", "hostname": "a.com"},
        {"name": "udp", "port": 81, "protocol": "UDP"},
    )
    delta = Translator(assume_class=True).update(keyed(allowing, listener_set("set", *listeners)))
    pending = delta.statuses[Key("ListenerSet", "default", "set")]
    served = with_parent_programmed(pending, served=True)
    assert programmed(served)[:2] == ("True", "Programmed")
    assert [programmed(each)[:2] for each in served.listeners] == [("True", "Programmed"), ("False", "Invalid")]
    waiting = with_parent_programmed(pending, served=False, reason="AddressNotAssigned", message="no address")
    assert programmed(waiting) == ("False", "ParentNotProgrammed", "no address")
    assert programmed(waiting.listeners[0]) == ("False", "Pending", "no address")


def test_a_listener_whose_socket_is_closed_is_pending_with_its_listener_set():
    allowing = gateway(allowedListeners={"namespaces": {"from": "Same"}})
    entries = ({"name": name, "port": port, "protocol": "HTTP"} for name, port in (("one", 81), ("two", 82)))
    delta = Translator(assume_class=True).update(keyed(allowing, listener_set("set", *entries)))
    pending = delta.statuses[Key("ListenerSet", "default", "set")]
    got = with_parent_programmed(pending, served=True, message="later", closed={"two": "http-82"})
    message = "http-82 is not open in the pods yet; later"
    assert programmed(got) == ("False", "Pending", message)
    assert [programmed(each) for each in got.listeners] == [
        ("True", "Programmed", "later"),
        ("False", "Pending", message),
    ]
    down = with_parent_programmed(pending, served=False, message="no address", closed={"two": "http-82"})
    assert programmed(down) == ("False", "ParentNotProgrammed", "no address")
