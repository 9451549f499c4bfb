"""What the readiness of a Gateway adds to statuses."""

from msgspec import structs

from support.builders.objects import gateway, keyed, listener_set
from varnish_gateway.api import Key
from varnish_gateway.operator.observe.state import ObservedState
from varnish_gateway.operator.plan.results import Postponed
from varnish_gateway.operator.plan.statuses import DesiredStatuses
from varnish_gateway.operator.status.readiness import Readiness
from varnish_gateway.translate import Translator

GATEWAY, SET = Key("Gateway", "default", "gw"), Key("ListenerSet", "default", "set")
OTHERS_BUSINESS = "RoleBinding tea/x: forbidden"
READY = Readiness(
    is_serving=True, reason="Programmed", message=OTHERS_BUSINESS, open_sockets=frozenset({"http-80", "http-81"})
)


def conditions(readiness: Readiness, key: Key, postponed: str = "") -> dict[str, tuple[str, str]]:
    """Return status and message of the conditions of an object; the ListenerSet has its socket at port 90."""
    translator = Translator(assume_class=True)
    allowing = gateway(allowedListeners={"namespaces": {"from": "Same"}})
    entry = {"name": "http", "port": 90, "protocol": "HTTP"}
    delta = translator.update(keyed(allowing, listener_set("set", entry)))
    waiting = {GATEWAY: Postponed(postponed, has_ports=True)} if postponed else {}
    sockets = {SET: {"http": "http-90"}}
    statuses = DesiredStatuses(
        ObservedState("varnish"), translator.listener_sets, {GATEWAY: readiness}, lambda _, one: sockets[one], waiting
    )
    complete = statuses.with_readiness(key, delta.statuses[key])
    return {one.type: (one.status, one.message) for one in complete.conditions}


def test_backends_without_endpoints_are_a_condition_of_the_gateway():
    unserved = Readiness(is_serving=True, reason="Programmed", unserved="shop/web:80: no EndpointSlice")
    found = conditions(unserved, GATEWAY)
    assert found["Programmed"] == ("True", "")
    status, message = found["gateway.varnish-software.com/UnservedBackends"]
    assert (status, message) == ("True", "requests to these backends get 503: shop/web:80: no EndpointSlice")
    assert "gateway.varnish-software.com/UnservedBackends" not in conditions(READY, GATEWAY)


def test_remarks_about_other_tenants_are_for_the_gateway_alone():
    assert conditions(READY, GATEWAY)["Programmed"] == ("True", OTHERS_BUSINESS)
    assert OTHERS_BUSINESS not in conditions(READY, SET)["Programmed"][1]


def test_listener_set_waits_for_its_own_socket_and_knows_until_when():
    found = conditions(READY, SET, "http-90 opens later")["Programmed"]
    assert found == ("False", "http-90 is not open in the pods yet; http-90 opens later")


def test_certificate_that_waits_is_a_remark_where_its_socket_is():
    why = "pod-1: its newest certificates and authorities serve at 2026-01-01T00:00:00Z"
    waiting = structs.replace(READY, open_sockets=frozenset({"http-90"}), deferred_sockets={"http-90": why})
    assert conditions(waiting, SET)["Programmed"] == ("True", f"http-90: {why}")
    elsewhere = structs.replace(waiting, deferred_sockets={"https-443": why})
    assert conditions(elsewhere, SET)["Programmed"] == ("True", "")
