"""ListenerSets that open ports: pods open them, or are replaced now and then where they are of the previous version."""

import asyncio
from itertools import pairwise

from support.kube.documents import gateway, listener_set
from support.simulation.documents import HOME, OURS, Document, basics, class_parameters, pod
from support.simulation.operators import OLD, SimulatedOperator, at_rest, listening
from support.simulation.store import Store
from support.simulation.virtualtime import in_virtual_time
from varnish_gateway.api import Key
from varnish_gateway.emit import names

GATEWAY, SET = Key("Gateway", HOME, "g1"), Key("ListenerSet", HOME, "s1")
DEPLOYMENT = Key("Deployment", HOME, names.workload("g1"))
SERVICE = Key("Service", HOME, names.workload("g1"))
SOON, NEW = 5.0, "new"
EVERYWHERE = {"allowedListeners": {"namespaces": {"from": "All"}}}


async def shared(*sets: Document, pods: str = OLD) -> tuple[Store, SimulatedOperator]:
    """Return a cluster with a programmed Gateway that accepts ListenerSets, and its operator.

    Its pods are of the previous version, or of this one.
    """
    store = Store()
    store.put(*basics(), gateway(HOME, "g1", OURS, **EVERYWHERE), pod(f"{pods}-pod", "g1", OURS), *sets)
    operator = SimulatedOperator(store)
    await asyncio.sleep(SOON)
    store.give_addresses()
    assert await at_rest(store, [operator])
    return store, operator


def replacements(store: Store) -> int:
    """Return how many times the pods were replaced."""
    templates = [change.after["spec"]["template"] for change in store.changes if change.key == DEPLOYMENT]
    return sum(before != after for before, after in pairwise(templates))


def is_open(store: Store, port: int) -> bool:
    return any(f"=:{port}," in socket for socket in listening(store.documents[DEPLOYMENT]))


def ports(store: Store) -> list[int]:
    """Return the ports of the Service."""
    return [port["port"] for port in store.documents[SERVICE]["spec"]["ports"]]


def programmed(store: Store, key: Key) -> tuple[str, str]:
    conditions = store.documents[key]["status"]["conditions"]
    found = next(one for one in conditions if one["type"] == "Programmed")
    return found["status"], found["message"]


async def flip(store: Store, port: int) -> None:
    store.put(listener_set(HOME, "s1", "g1", port=port))
    await asyncio.sleep(SOON)


@in_virtual_time
async def test_ports_that_flip_for_an_hour_replace_pods_a_few_times():
    store, operator = await shared()
    for number in range(720):
        await flip(store, 7000 + number)
    assert replacements(store) == 6, "at once, then after 1, 2, 4, 8 and 16 minutes"
    assert await at_rest(store, [operator])
    assert is_open(store, 7719)
    await operator.stop()


@in_virtual_time
async def test_restarted_operator_remembers_port_changes():
    store, operator = await shared()
    for number in range(3):
        await flip(store, 7000 + number)
    for number in range(3, 11):  # most of the first minute
        await operator.stop()
        operator = SimulatedOperator(store)
        await flip(store, 7000 + number)
    assert replacements(store) == 1
    await operator.stop()


@in_virtual_time
async def test_waiting_port_is_pending_in_its_listener_set_and_leaves_the_gateway_programmed():
    store, operator = await shared()
    before = len(store.changes)
    await flip(store, 7000)
    assert programmed(store, SET) == ("True", "")
    await flip(store, 7001)
    status, message = programmed(store, SET)
    assert status == "False"
    assert message.startswith("http-7001 is not open in the pods yet; http-7001 of ListenerSets opens at 1970-01-01T")
    assert "opens at 1970-01-01T" in programmed(store, GATEWAY)[1]
    since = [change.after for change in store.changes[before:] if change.key == GATEWAY]
    found = [one["status"] for version in since for one in version["status"]["conditions"]]
    assert set(found) == {"True"}, "the Gateway stays programmed all the time"
    await asyncio.sleep(60)
    assert is_open(store, 7001)
    assert await at_rest(store, [operator])
    assert programmed(store, SET) == ("True", "")
    assert programmed(store, GATEWAY) == ("True", "")
    await operator.stop()


@in_virtual_time
async def test_other_changes_do_not_wait_and_take_ports_along():
    store, operator = await shared()
    for port in (7000, 7001):
        await flip(store, port)
    assert not is_open(store, 7001)
    store.put(class_parameters("vcl", podAnnotations={"team": "edge"}))
    await asyncio.sleep(SOON)
    assert is_open(store, 7001)
    assert replacements(store) == 2
    await operator.stop()


@in_virtual_time
async def test_ports_of_the_gateway_itself_do_not_wait():
    store, operator = await shared()
    for port in (7000, 7001):
        await flip(store, port)
    store.put(gateway(HOME, "g1", OURS, ports=(80, 8080), **EVERYWHERE))
    await asyncio.sleep(SOON)
    assert is_open(store, 8080)
    assert is_open(store, 7001)
    await operator.stop()


@in_virtual_time
async def test_deleted_listener_set_replaces_no_pod():
    store, operator = await shared(listener_set(HOME, "s1", "g1", port=7000))
    assert is_open(store, 7000)
    store.delete(SET)
    assert await at_rest(store, [operator])
    assert replacements(store) == 0
    assert ports(store) == [80], "no traffic reaches the open port"
    store.put(listener_set(HOME, "s1", "g1", port=7000))
    assert await at_rest(store, [operator])
    assert replacements(store) == 0
    assert programmed(store, SET) == ("True", "")
    await operator.stop()


@in_virtual_time
async def test_scaled_deployment_does_not_lift_the_limit():
    store, operator = await shared()
    store.patch(DEPLOYMENT, {"spec": {"replicas": 5}}, "kubectl-scale")
    await asyncio.sleep(SOON)
    for number in range(8):
        await flip(store, 7000 + number)
    assert replacements(store) == 1
    await operator.stop()


@in_virtual_time
async def test_pods_that_open_ports_are_not_replaced_however_often_they_flip():
    store, operator = await shared(pods=NEW)
    for number in range(60):
        await flip(store, 7000 + number)
        assert ports(store) == [80, 7000 + number], "the Service follows at once"
    assert await at_rest(store, [operator])
    assert replacements(store) == 0
    assert not is_open(store, 7059), "the template has no port that pods open themselves"
    assert programmed(store, SET) == ("True", "")
    assert programmed(store, GATEWAY) == ("True", "")
    await operator.stop()


@in_virtual_time
async def test_a_replacement_for_another_reason_takes_ports_into_the_template():
    store, operator = await shared(pods=NEW)
    await flip(store, 7000)
    assert not is_open(store, 7000)
    store.put(class_parameters("vcl", podAnnotations={"team": "edge"}))
    await asyncio.sleep(SOON)
    assert is_open(store, 7000)
    assert replacements(store) == 1
    await operator.stop()


@in_virtual_time
async def test_a_pod_that_cannot_open_ports_brings_them_into_the_template():
    store, operator = await shared(pods=NEW)
    await flip(store, 7000)
    assert replacements(store) == 0
    store.put(pod(f"{OLD}-pod", "g1", OURS))
    assert await at_rest(store, [operator])
    assert is_open(store, 7000)
    assert replacements(store) == 1
    assert programmed(store, SET) == ("True", "")
    await operator.stop()


@in_virtual_time
async def test_restarted_operator_still_replaces_no_pod_for_a_port():
    store, operator = await shared(pods=NEW)
    await flip(store, 7000)
    await operator.stop()
    operator = SimulatedOperator(store)
    await flip(store, 7001)
    assert await at_rest(store, [operator])
    assert replacements(store) == 0
    await operator.stop()
