"""When a Gateway is programmed, and the message when it isn't."""

import pytest
from msgspec import structs

from varnish_gateway.emit.tls import NO_TLS
from varnish_gateway.ir import StatusAddress
from varnish_gateway.operator.status.readiness import (
    Expected,
    Issues,
    PodReport,
    UnservedReport,
    assess,
    service_addresses,
    unserved_of,
)

EXPECTED = Expected(generation="3", sockets=frozenset({"http-80"}))
GOOD = PodReport(generation="3", sockets=("http-80=0.0.0.0:80", "ghost-reload=127.0.0.1:1969"), up_to_date=True)
BALANCED = {"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}


def test_gateway_is_serving_when_every_ready_pod_is():
    readiness = assess(EXPECTED, {"a": GOOD, "b": GOOD}, BALANCED)
    assert readiness.is_serving
    assert readiness.addresses == (StatusAddress("IPAddress", "192.0.2.1"),)


@pytest.mark.parametrize(
    ("reports", "reason", "words"),
    [
        ({}, "Pending", "no pod is ready yet"),
        ({"a": GOOD, "b": PodReport(generation="2", sockets=GOOD.sockets, up_to_date=True)}, "Pending", "1 of 2"),
        (
            {"a": PodReport(generation="3", sockets=("http-8080=:8080",), up_to_date=True)},
            "Pending",
            "http-80 is not open",
        ),
        ({"a": PodReport(generation="3", sockets=GOOD.sockets, up_to_date=False)}, "Pending", "not served there yet"),
        ({"a": "no answer within 2 s"}, "Pending", "no answer within 2 s"),
        (
            {"a": PodReport(generation="3", sockets=GOOD.sockets, problems=("VCL: a semicolon is missing",))},
            "Invalid",
            "a: VCL: a semicolon is missing",
        ),
        (
            {f"p{n}": "no answer" for n in range(9)},
            "Pending",
            "9 of 9 ready pods do not serve this yet; the first is p0: no answer",
        ),
    ],
)
def test_message_names_what_a_pod_lacks(reports, reason, words):
    readiness = assess(EXPECTED, reports, BALANCED)
    assert not readiness.is_serving
    assert readiness.reason == reason
    assert words in readiness.message


def test_socket_is_open_when_enough_ready_pods_have_it():
    more = structs.replace(GOOD, sockets=(*GOOD.sockets, "http-90=:90"))
    assert "http-90" not in assess(EXPECTED, {"a": GOOD, "b": more}, BALANCED).open_sockets
    many = {f"p{number:02}": more for number in range(20)}
    for other in (GOOD, "no answer"):
        assert "http-90" in assess(EXPECTED, many | {"p00": other, "p01": other}, BALANCED).open_sockets
        assert (
            "http-90" not in assess(EXPECTED, many | dict.fromkeys(("p00", "p01", "p02"), other), BALANCED).open_sockets
        )


LATE = PodReport(generation="2", sockets=GOOD.sockets, up_to_date=True)


@pytest.mark.parametrize("other", ["no answer within 2 s", LATE], ids=["a lost node", "a reload"])
def test_one_of_fifty_pods_leaves_the_gateway_programmed_and_is_named(other):
    reports = {f"p{number:02}": GOOD for number in range(50)} | {"p17": other}
    readiness = assess(EXPECTED, reports, BALANCED)
    assert readiness.is_serving
    assert "1 of 50 ready pods do not serve this yet; the first is p17" in readiness.message


@pytest.mark.parametrize(("pods", "behind", "serves"), [(50, 5, True), (50, 6, False), (9, 1, False), (10, 1, True)])
def test_one_pod_in_ten_is_tolerated(pods, behind, serves):
    reports = {f"p{number:02}": GOOD if number >= behind else LATE for number in range(pods)}
    assert assess(EXPECTED, reports, BALANCED).is_serving is serves


def test_newest_certificates_have_to_be_served():
    expected = structs.replace(EXPECTED, tls="1f2e")
    assert "newest certificate" in assess(expected, {"a": GOOD}, BALANCED).message
    assert not assess(expected, {"a": structs.replace(GOOD, tls="0000")}, BALANCED).is_serving
    assert assess(expected, {"a": structs.replace(GOOD, tls="1f2e")}, BALANCED).is_serving
    assert not assess(EXPECTED, {"a": structs.replace(GOOD, tls="0000")}, BALANCED).is_serving, (
        "a withdrawn certificate"
    )
    assert assess(EXPECTED, {"a": structs.replace(GOOD, tls=NO_TLS)}, BALANCED).is_serving


def test_rejected_objects_are_reported_before_anything_about_pods():
    readiness = assess(EXPECTED, {"a": GOOD}, BALANCED, Issues(("Deployment x: spec.y is wrong",)))
    assert (readiness.is_serving, readiness.reason, readiness.message) == (
        False,
        "Invalid",
        "Deployment x: spec.y is wrong",
    )


def test_service_without_an_address_is_not_programmed():
    assert assess(EXPECTED, {"a": GOOD}, None).reason == "AddressNotAssigned"
    assert assess(EXPECTED, {"a": GOOD}, {"spec": {"type": "LoadBalancer"}}).reason == "AddressNotAssigned"


def test_requested_address_has_to_be_assigned():
    asked = Expected(generation="3", sockets=frozenset({"http-80"}), addresses=("192.0.2.9",))
    rejected = assess(asked, {"a": GOOD}, BALANCED)
    assert (rejected.reason, rejected.is_serving) == ("AddressNotUsable", False)
    assert "192.0.2.9" in rejected.message


def test_addresses_follow_the_type_of_the_service():
    hosted = {"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"hostname": "lb.example"}]}}}
    inside = {"spec": {"type": "ClusterIP", "clusterIPs": ["10.0.0.1", "fd00::1"]}}
    assert service_addresses(hosted) == (StatusAddress("Hostname", "lb.example"),)
    assert [address.value for address in service_addresses(inside)] == ["10.0.0.1", "fd00::1"]
    assert service_addresses({"spec": {"type": "ClusterIP", "clusterIPs": ["None"]}}) == ()


def test_unserved_backends_are_counted_whatever_fits_into_the_message():
    reasons = tuple(f"shop/{name}: {'x' * 400}" for name in "abcde")
    message = unserved_of({"pod": PodReport(unserved=UnservedReport(100, reasons))})
    assert message == f"{reasons[0]}; {reasons[1]}; and 98 more"


def test_closed_sockets_have_the_first_pod_and_its_reason_and_leave_the_gateway_programmed():
    closed = {pod: structs.replace(GOOD, closed={"http-90": f"taken in {pod}"}) for pod in ("b", "a")}
    readiness = assess(EXPECTED, closed | {"c": GOOD}, BALANCED)
    assert readiness.is_serving
    assert readiness.closed_sockets == {"http-90": "a: taken in a"}


def test_certificates_that_wait_are_named_where_the_gateway_has_the_socket_and_change_nothing_else():
    waiting = structs.replace(GOOD, deferred={"http-80": "until noon", "https-443": "until noon"})
    readiness = assess(EXPECTED, {"a": waiting, "b": GOOD}, BALANCED)
    assert readiness.is_serving
    assert readiness.message == "http-80: a: until noon"
    assert readiness.deferred_sockets == {"http-80": "a: until noon", "https-443": "a: until noon"}
