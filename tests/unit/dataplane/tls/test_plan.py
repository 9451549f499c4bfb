import pytest

from support.varnish.tls import both, pair, tls
from varnish_gateway.dataplane.process.port_owners import PortOwners
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.tls.material import read_tls
from varnish_gateway.dataplane.tls.plan import TlsPlan, TlsPlanner, changes_validation, steps, without_reload
from varnish_gateway.emit.names import TLS as TLS_JSON
from varnish_gateway.emit.tls import encode_tls
from varnish_gateway.ir import Tls

PORTS = PortOwners(parse_listen("https-443=:443,https;https-8443=:8443,https"), opens_later=True).terminator
LATER = PortOwners(parse_listen("https-443=:443,https"), opens_later=True)
LATER.update(parse_listen("https-443=:443,https;https-8443=:8443,https;http-8081=:8081,http"))
TEA, MILK = pair("tea"), pair("milk")


@pytest.fixture
def planner():
    checked = []
    made = TlsPlanner(checked.append, lambda socket: (socket.address,))
    made.checked = checked
    return made


def plan_of(planner, desired, before=None, ports=PORTS):
    plan, problems = planner.plan(desired, ports, before or TlsPlan())
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
    after, problems = planner.plan(tls(443, (b"none", ["tea"]), (pair("milk", 1), ["milk"])), PORTS, before)
    assert len(problems) == 1
    assert plan_of(planner, after.tls) == after


def test_repr_of_a_plan_shows_no_key(planner):
    plan = plan_of(planner, tls(443, (TEA, ["tea"])))
    assert "PRIVATE" not in repr(plan)
    assert "PRIVATE" not in str(plan)


def test_a_plain_port_needs_no_certificate_and_is_no_tls(planner):
    plan = plan_of(planner, Tls(), ports=LATER.terminator)
    assert [(bind.port, bind.is_tls, bind.behind) for bind in plan.binds] == [(8081, False, "http-later.sock")]
    assert plan.tls == Tls()


def test_a_port_that_came_later_has_the_shared_socket_behind_it(planner):
    plan = plan_of(planner, both(tls(443, (TEA, ["tea"])), tls(8443, (TEA, ["tea"]))), ports=LATER.terminator)
    assert {bind.port: bind.behind for bind in plan.binds} == {
        443: "https-443.sock",
        8081: "http-later.sock",
        8443: "https-later.sock",
    }


def test_without_a_reload_present_ports_get_their_certificates_and_no_port_changes(planner):
    before = plan_of(planner, both(tls(443, (TEA, ["tea"])), tls(8443, (TEA, ["tea"]))))
    desired = plan_of(planner, tls(443, (MILK, ["tea"])), before, LATER.terminator)
    possible = without_reload(before, desired, 40000)
    assert possible.ports == {443, 8443}
    assert possible.of(443) == desired.of(443)
    assert possible.of(8443) == before.of(8443)
    assert steps(before, possible, 40000) is not None
    assert without_reload(before, desired, 100) == before, "a large certificate needs a reload too"


def test_large_certificate_waits_for_a_reload_and_small_ones_of_the_port_do_not(planner):
    before = plan_of(planner, tls(443, (TEA, ["tea"]), (MILK, ["milk"])))
    renewed = pair("milk", 1)
    desired = plan_of(planner, tls(443, (TEA, ["tea"]), (renewed, ["milk"])), before)
    big = {slot.name: b"x" * 50_000 for slot in desired.lists[443] if slot.names == ("tea",)}
    desired = TlsPlan(desired.binds, desired.lists, {**desired.files, **big})
    possible = without_reload(before, desired, 40_000)
    served = {slot.names: possible.files[slot.name] for slot in possible.lists[443]}
    assert served == {("*",): TEA.content, ("tea",): TEA.content, ("milk",): renewed.content}
    assert steps(before, possible, 40_000) is not None


def test_former_certificates_stay_while_a_large_one_with_other_names_waits(planner):
    """Some of its names may be those of the former ones."""
    before = plan_of(planner, tls(443, (TEA, ["tea"]), (MILK, ["milk"])))
    desired = plan_of(planner, tls(443, (TEA, ["tea"]), (MILK, ["milk", "cream"])), before)
    big = {slot.name: b"x" * 50_000 for slot in desired.lists[443] if "cream" in slot.names}
    possible = without_reload(before, TlsPlan(desired.binds, desired.lists, {**desired.files, **big}), 40_000)
    assert [slot.names for slot in possible.lists[443]] == [("*",), ("tea",), ("milk",)]
    assert steps(before, possible, 40_000) is not None


def test_validation_changes_where_a_port_has_tls_before_and_after(planner):
    plain = plan_of(planner, tls(443, (TEA, ["tea"])))
    validated = plan_of(planner, tls(443, (TEA, ["tea"]), clients="friends"))
    others = plan_of(planner, tls(443, (TEA, ["tea"]), clients="strangers"))
    lax = plan_of(planner, tls(443, (TEA, ["tea"]), clients="friends", insecure=True))
    without_tls = TlsPlan(tuple(bind._replace(is_tls=False) for bind in plain.binds))
    assert changes_validation(plain, validated)
    assert changes_validation(validated, lax)
    assert not changes_validation(validated, others), "another user may own the authorities"
    assert not changes_validation(plain, plain)
    assert not changes_validation(without_tls, validated)
    assert not changes_validation(TlsPlan(), validated)


def test_authorities_stay_until_a_reload(planner):
    before = plan_of(planner, tls(443, (TEA, ["tea"]), clients="friends"))
    desired = plan_of(planner, tls(443, (TEA, ["tea"]), clients="strangers"), before)
    assert without_reload(before, desired, 40_000) == before
    renewed = plan_of(planner, tls(443, (MILK, ["tea"]), clients="friends"), before)
    assert without_reload(before, renewed, 40_000) == renewed
