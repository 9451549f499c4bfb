"""What the condition Programmed says while pods and the API server are in trouble."""

import asyncio

from support.kube.documents import gateway, route
from support.simulation.documents import AWAY, BACKEND, HOME, OURS, Document, basics, certificate, https, pod
from support.simulation.operators import SimulatedOperator, at_rest
from support.simulation.store import Store
from support.simulation.virtualtime import in_virtual_time
from varnish_gateway.api import Key

GATEWAY = Key("Gateway", HOME, "g1")
LONG = 60.0


def history(store: Store) -> list[Document]:
    """Return the condition Programmed of every stored version of the Gateway."""
    versions = [change.after for change in store.changes if change.key == GATEWAY]
    conditions = [one for version in versions for one in version["status"]["conditions"]]
    return [one for one in conditions if one["type"] == "Programmed"]


async def programmed(*documents: Document, pods: int) -> tuple[Store, SimulatedOperator]:
    """Return a cluster with a programmed Gateway of so many pods, and its operator."""
    store = Store()
    made = gateway(HOME, "g1", OURS)
    made["spec"]["listeners"].append(https())
    store.put(*basics(), certificate("a.example.com"), made, *documents)
    store.put(*(pod(f"pod-{number:02}", "g1", OURS) for number in range(pods)))
    operator = SimulatedOperator(store)
    assert await at_rest(store, [operator])
    store.give_addresses()
    assert await at_rest(store, [operator])
    assert history(store)[-1]["status"] == "True"
    return store, operator


@in_virtual_time
async def test_lost_node_of_one_in_fifty_pods_is_named_and_changes_no_status():
    store, operator = await programmed(pods=50)
    before = len(history(store))
    store.faults.lost = {"pod-17"}
    await asyncio.sleep(LONG)
    since = history(store)[before:]
    assert {one["status"] for one in since} == {"True"}
    assert "1 of 50 ready pods do not serve this yet; the first is pod-17" in since[-1]["message"]
    store.faults.lost.clear()
    await asyncio.sleep(LONG)
    assert history(store)[-1]["message"] == ""
    await operator.stop()


@in_virtual_time
async def test_pods_that_reload_certificates_change_no_status():
    store, operator = await programmed(pods=2)
    before = len(history(store))
    for host in ("b.example.com", "a.example.com") * 3:
        store.faults.lost = {"pod-00"}
        store.put(certificate(host))
        await asyncio.sleep(2)
        store.faults.lost.clear()
        await asyncio.sleep(LONG)
    assert {one["status"] for one in history(store)[before:]} <= {"True"}
    await operator.stop()


@in_virtual_time
async def test_lost_pod_of_two_changes_the_status_once_and_back_once():
    store, operator = await programmed(pods=2)
    before = len(history(store))
    store.faults.lost = {"pod-00"}
    await asyncio.sleep(LONG)
    store.faults.lost.clear()
    await asyncio.sleep(LONG)
    assert [one["status"] for one in history(store)[before:]] == ["False", "True"]
    await operator.stop()


@in_virtual_time
async def test_rejected_role_binding_is_reported_and_leaves_the_gateway_programmed():
    store, operator = await programmed(pods=1)
    before = len(history(store))
    store.faults.denied["RoleBinding", AWAY] = 403
    store.put(route(HOME, "r1", "g1", backend={"name": BACKEND, "namespace": AWAY}))
    await asyncio.sleep(LONG)
    since = history(store)[before:]
    assert {one["status"] for one in since} == {"True"}
    assert "RoleBinding away/" in since[-1]["message"]
    assert "a policy denies the request" in since[-1]["message"]
    store.faults.clear()
    await asyncio.sleep(3 * LONG)
    assert history(store)[-1]["message"] == ""
    await operator.stop()
