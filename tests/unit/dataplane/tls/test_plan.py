import pytest

from support.varnish.tls import both, pair, tls
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.tls.material import read_tls
from varnish_gateway.dataplane.tls.plan import TlsPlan, TlsPlanner, steps
from varnish_gateway.emit.names import TLS as TLS_JSON
from varnish_gateway.emit.tls import encode_tls
from varnish_gateway.ir import Tls

SOCKETS = parse_listen("https-443=:443,https;https-8443=:8443,https").tls
TEA, MILK = pair("tea"), pair("milk")


@pytest.fixture
def planner():
    checked = []
    made = TlsPlanner(checked.append, lambda socket: (socket.address,))
    made.checked = checked
    return made


def plan_of(planner, desired, before=None):
    plan, problems = planner.plan(desired, SOCKETS, before or TlsPlan())
    assert problems == []
    return plan


def test_a_port_needs_a_socket_and_a_certificate(planner):
    desired = both(tls(443, (TEA, ["tea"])), tls(9443, (TEA, ["tea"])), tls(8443))
    assert plan_of(planner, desired).ports == {443}
    assert plan_of(planner, Tls()) == TlsPlan()


def test_certificate_is_checked_once(planner):
    before = plan_of(planner, tls(443, (TEA, ["tea"])))
    plan_of(planner, tls(443, (TEA, ["tea"]), (MILK, ["milk"])), before)
    assert planner.checked == [TEA.content, MILK.content]


def test_a_rotation_replaces_slots(planner):
    before = plan_of(planner, tls(443, (TEA, ["tea"]), (MILK, ["milk"])))
    after = plan_of(planner, tls(443, (TEA, ["tea"]), (pair("milk", 1), ["milk"])), before)
    way = steps(before, after, 40000)
    assert (len(way.replaced), way.added, way.removed) == (1, (), ())


def test_another_first_certificate_replaces_the_default(planner):
    before = plan_of(planner, tls(443, (TEA, ["tea"]), (MILK, ["milk"])))
    after = plan_of(planner, tls(443, (MILK, ["milk"]), (TEA, ["tea"])), before)
    assert steps(before, after, 40000).replaced == ("443.default.pem",)


def test_ports_authorities_and_large_certificates_need_a_reload(planner):
    before = plan_of(planner, tls(443, (TEA, ["tea"])))
    more = plan_of(planner, both(tls(443, (TEA, ["tea"])), tls(8443, (TEA, ["tea"]))), before)
    validated = plan_of(planner, tls(443, (TEA, ["tea"]), clients="friends"), before)
    other = plan_of(planner, tls(443, (MILK, ["tea"])), before)
    assert [steps(before, each, 40000) for each in (more, validated)] == [None, None]
    assert steps(before, other, 100) is None


def test_plan_returns_the_tls_that_results_in_it(planner):
    many = [f"{number}.tea" for number in range(1200)]
    desired = both(
        tls(
            443, (TEA, ["*", "tea"]), (MILK, ["milk", "*"]), (pair("tea", 1), ["tea"]), clients="friends", insecure=True
        ),
        tls(8443, (MILK, many)),
    )
    plan = plan_of(planner, desired)
    again = read_tls({**plan.tls.files, TLS_JSON: encode_tls(plan.tls)}, "here")
    assert plan_of(planner, again) == plan


def test_plan_with_a_problem_returns_the_tls_that_stays(planner):
    before = plan_of(planner, tls(443, (TEA, ["tea"]), (MILK, ["milk"])))
    after, problems = planner.plan(tls(443, (b"none", ["tea"]), (pair("milk", 1), ["milk"])), SOCKETS, before)
    assert len(problems) == 1
    assert plan_of(planner, after.tls) == after


def test_repr_of_a_plan_shows_no_key(planner):
    plan = plan_of(planner, tls(443, (TEA, ["tea"])))
    assert "PRIVATE" not in repr(plan)
    assert "PRIVATE" not in str(plan)
