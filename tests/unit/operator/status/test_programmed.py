"""When a Gateway is programmed, and what is said when it is not."""

import pytest
from msgspec import structs

from varnish_gateway.emit.tls import NO_TLS
from varnish_gateway.ir import Address
from varnish_gateway.operator.observe.pods import Report
from varnish_gateway.operator.status.programmed import Wanted, judge, service_addresses

WANTED = Wanted(generation="3", sockets=frozenset({"http-80"}))
GOOD = Report(generation="3", sockets=("http-80=0.0.0.0:80", "ghost-reload=127.0.0.1:1969"), up_to_date=True)
BALANCED = {"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}


def test_every_ready_pod_serves_it():
    verdict = judge(WANTED, {"a": GOOD, "b": GOOD}, BALANCED, ())
    assert verdict.served
    assert verdict.addresses == (Address("IPAddress", "192.0.2.1"),)


@pytest.mark.parametrize(
    ("reports", "reason", "words"),
    [
        ({}, "Pending", "no pod is ready yet"),
        ({"a": GOOD, "b": Report(generation="2", sockets=GOOD.sockets, up_to_date=True)}, "Pending", "1 of 2"),
        (
            {"a": Report(generation="3", sockets=("http-8080=:8080",), up_to_date=True)},
            "Pending",
            "http-80 is not open",
        ),
        ({"a": Report(generation="3", sockets=GOOD.sockets, up_to_date=False)}, "Pending", "not served there yet"),
        ({"a": "no answer within 2 s"}, "Pending", "no answer within 2 s"),
        (
            {"a": Report(generation="3", sockets=GOOD.sockets, problems=("VCL: a semicolon is missing",))},
            "Invalid",
            "a: VCL: a semicolon is missing",
        ),
        ({f"p{n}": "no answer" for n in range(9)}, "Pending", "and 6 more"),
    ],
)
def test_what_a_pod_lacks_is_said(reports, reason, words):
    verdict = judge(WANTED, reports, BALANCED, ())
    assert not verdict.served
    assert verdict.reason == reason
    assert words in verdict.message


def test_certificates_have_to_be_served_where_there_are_any():
    wanted = structs.replace(WANTED, tls="1f2e")
    assert "newest certificate" in judge(wanted, {"a": GOOD}, BALANCED, ()).message
    assert not judge(wanted, {"a": structs.replace(GOOD, tls="0000")}, BALANCED, ()).served
    assert judge(wanted, {"a": structs.replace(GOOD, tls="1f2e")}, BALANCED, ()).served
    assert not judge(WANTED, {"a": structs.replace(GOOD, tls="0000")}, BALANCED, ()).served, "one that is withdrawn"
    assert judge(WANTED, {"a": structs.replace(GOOD, tls=NO_TLS)}, BALANCED, ()).served


def test_refused_objects_come_first():
    verdict = judge(WANTED, {"a": GOOD}, BALANCED, ("Deployment x: spec.y is wrong",))
    assert (verdict.served, verdict.reason, verdict.message) == (False, "Invalid", "Deployment x: spec.y is wrong")


def test_a_service_without_an_address_is_not_reachable():
    assert judge(WANTED, {"a": GOOD}, None, ()).reason == "AddressNotAssigned"
    assert judge(WANTED, {"a": GOOD}, {"spec": {"type": "LoadBalancer"}}, ()).reason == "AddressNotAssigned"


def test_an_address_that_was_asked_for_has_to_be_given():
    asked = Wanted(generation="3", sockets=frozenset({"http-80"}), addresses=("192.0.2.9",))
    refused = judge(asked, {"a": GOOD}, BALANCED, ())
    assert (refused.reason, refused.served) == ("AddressNotUsable", False)
    assert "192.0.2.9" in refused.message


def test_addresses_by_the_type_of_the_service():
    hosted = {"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"hostname": "lb.example"}]}}}
    inside = {"spec": {"type": "ClusterIP", "clusterIPs": ["10.0.0.1", "fd00::1"]}}
    assert service_addresses(hosted) == (Address("Hostname", "lb.example"),)
    assert [address.value for address in service_addresses(inside)] == ["10.0.0.1", "fd00::1"]
    assert service_addresses({"spec": {"type": "ClusterIP", "clusterIPs": ["None"]}}) == ()
