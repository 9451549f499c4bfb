"""Who gets which address."""

from cluster import layout
from cluster.node.loadbalancer import FREE, Balancer


def service(uid: str = "a", address: str | None = None, **spec: object) -> dict:
    status = {"loadBalancer": {"ingress": [{"ip": address}]} if address else {}}
    return {"metadata": {"uid": uid}, "spec": {"type": "LoadBalancer", **spec}, "status": status}


def given(patch: dict | None) -> str | None:
    ingress = patch["status"]["loadBalancer"]["ingress"]
    return ingress[0]["ip"] if ingress else None


def test_services_get_addresses_of_their_own():
    balancer = Balancer()
    assert [given(balancer.answer(service(uid))) for uid in "abc"] == list(FREE[:3])


def test_service_keeps_its_address():
    balancer = Balancer()
    has = service(address=FREE[5])
    balancer.learn([has])
    assert balancer.answer(has) is None


def test_an_address_is_given_again_when_its_service_went():
    balancer = Balancer()
    balancer.answer(service("a"))
    balancer.forget(service("a"))
    assert given(balancer.answer(service("b"))) == FREE[0]


def test_requested_address_is_assigned_once():
    balancer = Balancer()
    assert given(balancer.answer(service(loadBalancerIP=layout.USABLE_ADDRESS))) == layout.USABLE_ADDRESS
    assert layout.USABLE_ADDRESS not in FREE


def test_an_address_outside_the_pool_or_taken_is_not_given():
    balancer = Balancer()
    balancer.answer(service("a", loadBalancerIP=layout.USABLE_ADDRESS))
    assert balancer.answer(service("b", loadBalancerIP=layout.USABLE_ADDRESS)) is None
    assert balancer.answer(service("c", loadBalancerIP=layout.UNUSABLE_ADDRESS)) is None


def test_service_that_requests_another_address_gets_it():
    balancer = Balancer()
    balancer.answer(service())
    moved = service(address=FREE[0], loadBalancerIP=layout.USABLE_ADDRESS)
    assert given(balancer.answer(moved)) == layout.USABLE_ADDRESS


def test_service_that_requests_an_impossible_address_loses_its_own():
    balancer = Balancer()
    balancer.answer(service())
    assert given(balancer.answer(service(address=FREE[0], loadBalancerIP=layout.UNUSABLE_ADDRESS))) is None
    assert given(balancer.answer(service("b"))) == FREE[0]


def test_other_services_are_left_alone():
    balancer = Balancer()
    assert balancer.answer(service(type="ClusterIP")) is None
    assert balancer.answer(service(loadBalancerClass="other")) is None


def test_a_service_that_is_no_load_balancer_any_more_loses_its_address():
    balancer = Balancer()
    balancer.answer(service())
    assert given(balancer.answer(service(type="ClusterIP", address=FREE[0]))) is None
