"""Operator and pods of different versions: the operator sends what all pods of a Gateway understand."""

import json

from support.kube.documents import gateway, route
from support.simulation.documents import BACKEND, HOME, OURS, Document, basics, class_parameters, pod
from support.simulation.operators import OLD, SILENT, SimulatedOperator, at_rest
from support.simulation.store import Store
from support.simulation.virtualtime import in_virtual_time
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.ir.status import WITHHELD

G1 = Key("Gateway", HOME, "g1")
MAIN = Key("ConfigMap", HOME, "g1-vcl")
PATHS = {"mergeSlashes": True, "reject": ["%2F"]}
ATTEMPTS = 1000


def cluster(*pods: Document, shards_of: int = 0) -> Store:
    """Return a cluster with a Gateway that needs capabilities, and with so many further routes."""
    persistent = route(HOME, "persistent", "g1", backend={"name": BACKEND})
    persistent["spec"]["rules"][0]["retry"] = {"attempts": ATTEMPTS}
    others = [route(HOME, f"r{number}", "g1", backend={"name": BACKEND}) for number in range(shards_of)]
    store = Store()
    store.put(*basics(), class_parameters(paths=PATHS), gateway(HOME, "g1", OURS), persistent, *others, *pods)
    return store


async def rest(store: Store, operator: SimulatedOperator) -> None:
    assert await at_rest(store, [operator])
    store.give_addresses()
    assert await at_rest(store, [operator])
    assert operator.bugs == []


def sent(store: Store) -> tuple[bool, int]:
    """Return whether request rules are sent, and how many retries."""
    return sent_in([document for key, document in store.documents.items() if key.name.startswith(MAIN.name)])


def sent_in(maps: list[Document]) -> tuple[bool, int]:
    shards = [json.loads(one["data"][names.ROUTING]) for one in maps]
    routes = {one["name"]: one for shard in shards for one in shard.get("routes", ())}
    return any("requests" in shard for shard in shards), routes["persistent"]["rules"][0]["retry"]["attempts"]


def condition(store: Store, type_: str) -> Document | None:
    found = store.documents[G1]["status"]["conditions"]
    return next((one for one in found if one["type"] == type_), None)


def maps_written(operator: SimulatedOperator) -> list[str]:
    return [write.key.name for write in operator.writing.writes if write.key.kind == "ConfigMap"]


ALL_SENT, NONE_SENT = (True, ATTEMPTS), (False, 20)


@in_virtual_time
async def test_new_operator_withholds_from_old_pods_until_the_last_is_replaced():
    store = cluster(*(pod(f"g1-{OLD}-{number}", "g1", OURS) for number in range(2)))
    operator = SimulatedOperator(store)
    await rest(store, operator)
    assert sent(store) == NONE_SENT
    withheld = condition(store, WITHHELD)
    assert withheld["status"] == "True"
    assert "HTTPRoute home/persistent: a request is retried 20 times at most" in withheld["message"]
    assert "pod g1-old-0 doesn't report request-rules" in withheld["message"]
    assert condition(store, "Programmed")["status"] == "True", "the pods serve all that they understand"

    store.put(pod("g1-new-0", "g1", OURS))
    store.delete(Key("Pod", HOME, f"g1-{OLD}-0"))
    await rest(store, operator)
    assert sent(store) == NONE_SENT
    store.put(pod("g1-new-1", "g1", OURS))
    store.delete(Key("Pod", HOME, f"g1-{OLD}-1"))
    await rest(store, operator)
    assert sent(store) == ALL_SENT
    assert condition(store, WITHHELD) is None
    assert condition(store, "Programmed")["status"] == "True"
    await operator.stop()


@in_virtual_time
async def test_grant_writes_the_shards_that_need_it_and_no_others():
    store = cluster(pod(f"g1-{OLD}", "g1", OURS), shards_of=300)
    operator = SimulatedOperator(store)
    await rest(store, operator)
    shards = [key for key in store.documents if key.name.startswith(f"{MAIN.name}-")]
    assert len(shards) >= 4
    operator.writing.writes.clear()
    store.delete(Key("Pod", HOME, f"g1-{OLD}"))
    store.put(pod("g1-new", "g1", OURS))
    await rest(store, operator)
    assert sent(store) == ALL_SENT
    (holder,) = [key.name for key in shards if "persistent" in store.documents[key]["data"][names.ROUTING]]
    # The main one has its routing, and main.vcl with the frame of the cache, by two managers.
    assert sorted(maps_written(operator)) == sorted([MAIN.name, MAIN.name, holder])
    await operator.stop()


@in_virtual_time
async def test_restarted_operator_goes_on_with_what_was_understood():
    for name in ("g1-new", f"g1-{OLD}"):
        store = cluster(pod(name, "g1", OURS))
        first = SimulatedOperator(store)
        await rest(store, first)
        await first.stop()
        second = SimulatedOperator(store)
        await rest(store, second)
        assert second.writing.writes == [], name
        await second.stop()


@in_virtual_time
async def test_fresh_gateway_is_never_without_its_request_rules():
    """Until pods reported to the operator, they would accept paths that the user rejects."""
    store = cluster()
    operator = SimulatedOperator(store)
    await rest(store, operator)
    store.put(pod("g1-new", "g1", OURS))
    await rest(store, operator)
    versions = [change.after for change in store.changes if change.key == MAIN]
    assert {sent_in([version]) for version in versions} == {ALL_SENT}
    await operator.stop()


@in_virtual_time
async def test_old_pod_that_can_not_become_ready_gets_what_it_can_read():
    """A user goes back to the previous image while the operator is new."""
    store = cluster(pod("g1-new", "g1", OURS))
    operator = SimulatedOperator(store)
    await rest(store, operator)
    assert sent(store) == ALL_SENT
    store.put(pod(f"g1-{OLD}", "g1", OURS, is_ready=False))
    await rest(store, operator)
    assert sent(store) == NONE_SENT
    await operator.stop()


@in_virtual_time
async def test_pod_that_does_not_answer_takes_nothing_from_the_others():
    store = cluster(pod("g1-new", "g1", OURS))
    operator = SimulatedOperator(store)
    await rest(store, operator)
    store.put(pod(f"g1-{SILENT}", "g1", OURS), pod(f"g1-{SILENT}-starting", "g1", OURS, is_ready=False))
    await rest(store, operator)
    assert sent(store) == ALL_SENT
    assert condition(store, WITHHELD) is None
    await operator.stop()


@in_virtual_time
async def test_capabilities_come_back_although_a_pod_cannot_be_scheduled():
    store = cluster(pod(f"g1-{OLD}", "g1", OURS))
    operator = SimulatedOperator(store)
    await rest(store, operator)
    assert sent(store) == NONE_SENT
    pending = pod("g1-pending", "g1", OURS, is_ready=False)
    del pending["status"]["podIP"]
    store.put(pod("g1-new", "g1", OURS), pending)
    store.delete(Key("Pod", HOME, f"g1-{OLD}"))
    await rest(store, operator)
    assert sent(store) == ALL_SENT
    assert condition(store, WITHHELD) is None
    await operator.stop()


@in_virtual_time
async def test_capabilities_from_before_a_rollback_are_not_used_for_its_pods():
    """The operator of the previous version writes main.vcl, and nothing else that differs."""
    store = cluster(pod("g1-new", "g1", OURS))
    first = SimulatedOperator(store)
    await rest(store, first)
    await first.stop()
    assert "varnish.io/capabilities" in store.documents[MAIN]["metadata"]["annotations"]
    written = store.documents[MAIN]
    fields = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": MAIN.name,
            "namespace": HOME,
            "labels": written["metadata"]["labels"],
            "annotations": {
                name: written["metadata"]["annotations"][name]
                for name in (names.GATEWAY_ANNOTATION, names.APPLIED_HASH, names.GENERATION)
            },
            "ownerReferences": written["metadata"]["ownerReferences"],
        },
        "data": {names.MAIN_VCL: written["data"][names.MAIN_VCL] + "# of the previous version"},
    }
    store.apply(fields, names.GATEWAY_MANAGER, force=True)
    assert "varnish.io/capabilities" in store.documents[MAIN]["metadata"]["annotations"]
    store.delete(Key("Pod", HOME, "g1-new"))
    store.put(pod(f"g1-{SILENT}", "g1", OURS))
    second = SimulatedOperator(store)
    await rest(store, second)
    assert sent(store) == NONE_SENT, "pods of the previous version may be there"
    await second.stop()
