"""When a Gateway is programmed, and the message when it isn't."""

import pytest
from msgspec import structs

from varnish_gateway.emit.tls import NO_TLS
from varnish_gateway.ir import StatusAddress
from varnish_gateway.operator.status.readiness import Expected, Issues, PodReport, assess, service_addresses

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
