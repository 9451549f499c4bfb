"""Sequences of events that once left an operator at rest in a wrong state.

Each is exact: what is late is held back until the moment that matters.
"""

import asyncio
import json

import pytest

from support.kube.documents import gateway, listener_set, route
from support.simulation.client import answers_to
from support.simulation.documents import (
    BACKEND,
    CERTIFICATE,
    HOME,
    OTHERS,
    OURS,
    STRANGERS,
    Document,
    basics,
    certificate,
    class_parameters,
    https,
    pod,
)
from support.simulation.operators import SimulatedOperator, at_rest
from support.simulation.store import Store, key_of
from support.simulation.virtualtime import in_virtual_time
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit import routing as emitted
from varnish_gateway.kinds import Use, used_for

G1, G2 = Key("Gateway", HOME, "g1"), Key("Gateway", HOME, "g2")
R1 = Key("HTTPRoute", HOME, "r1")
S1 = Key("ListenerSet", HOME, "s1")
PARAMETERS = Key("GatewayClassParameters", "", OURS)
EDITOR = "kubectl-edit"
SOON = 1.0
"""Within that, in seconds, everybody hears of everything and acts on it, unless it is held back."""


def cluster(*documents: Document) -> Store:
    store = Store()
    store.put(*basics(), *documents)
    return store


async def rest(store: Store, *operators: SimulatedOperator) -> None:
    """Let operators come to rest; addresses are given, garbage is left where it is."""
    assert await at_rest(store, operators)
    store.give_addresses()
    assert await at_rest(store, operators)
    assert [bug for one in operators for bug in one.bugs] == []


async def assert_nothing_left_to_write(store: Store, *operators: SimulatedOperator, class_name: str = OURS) -> None:
    for one in operators:
        await one.stop()
    fresh = SimulatedOperator(store, class_name=class_name)
    await rest(store, fresh)
    assert fresh.writing.writes == []
    await fresh.stop()


def gateway_named(key: Key, class_name: str = OURS, port: int = 80) -> Document:
    return gateway(HOME, key.name, class_name, ports=(port,), allowedListeners={"namespaces": {"from": "All"}})


def route_r1() -> Document:
    return route(HOME, R1.name, G1.name, backend={"name": BACKEND})


def parents(store: Store, key: Key = R1) -> list[str]:
    """Return the parents that a route's status speaks of."""
    status = store.documents[key].get("status", {})
    return [parent["parentRef"]["name"] for parent in status.get("parents", ())]


def condition(store: Store, key: Key, type_: str) -> Document:
    return next(one for one in store.documents[key]["status"]["conditions"] if one["type"] == type_)


def sockets_in(store: Store, key: Key) -> list[str]:
    """Return the sockets of the listeners in a Gateway's ConfigMap."""
    return [one["socket"] for one in json.loads(store.documents[key]["data"][names.ROUTING])["listeners"]]


def maps(store: Store) -> list[str]:
    """Return the names of all ConfigMaps of Gateways."""
    return [key.name for key in generated(store) if key.kind == "ConfigMap"]


def generated(store: Store) -> dict[Key, Document]:
    return {
        key: document
        for key, document in store.documents.items()
        if names.MANAGED_BY_LABEL in document["metadata"].get("labels", {}) and key.kind != "Pod"
    }


@in_virtual_time
async def test_status_being_written_during_gateway_deletion_is_removed():
    store = cluster(gateway_named(G1))
    operator = SimulatedOperator(store)
    await rest(store, operator)
    operator.writing.hold(answers_to(R1.kind))
    store.put(route_r1())
    await asyncio.sleep(SOON)
    assert parents(store) == ["g1"], "it is written, and the answer is on its way"
    store.delete(G1)
    await asyncio.sleep(SOON)
    operator.writing.release(answers_to(R1.kind))
    await rest(store, operator)
    assert parents(store) == []
    await assert_nothing_left_to_write(store, operator)


@in_virtual_time
async def test_gateway_recreated_in_our_class_gets_its_own_objects():
    """The objects of another class are not watched: no event reports their deletion."""
    store = cluster(gateway_named(G1, OTHERS))
    other = SimulatedOperator(store, class_name=OTHERS)
    await rest(store, other)
    await other.stop()
    operator = SimulatedOperator(store)
    await rest(store, operator)
    store.delete(G1)
    store.put(gateway_named(G1))
    await rest(store, operator)
    owner = store.documents[G1]["metadata"]["uid"]
    assert {owner} == {one["metadata"]["ownerReferences"][0]["uid"] for one in generated(store).values()}
    assert {"ConfigMap", "Deployment", "Role", "RoleBinding", "Service"} <= {key.kind for key in generated(store)}
    await assert_nothing_left_to_write(store, operator)


@pytest.mark.parametrize("is_made_anew", [True, False])
@in_virtual_time
async def test_moved_listener_set_is_validated_with_its_new_gateway(is_made_anew):
    store = cluster(gateway_named(G1), gateway_named(G2), listener_set(HOME, S1.name, G1.name, port=8080))
    store.put(pod("telling", G1.name, OURS))
    operator = SimulatedOperator(store)
    await rest(store, operator)
    assert condition(store, S1, "Programmed")["status"] == "True"
    if is_made_anew:
        store.delete(S1)
    store.put(listener_set(HOME, S1.name, G2.name, port=8080))
    await rest(store, operator)
    assert condition(store, G2, "Programmed")["status"] == "False", "it has no pod"
    assert condition(store, S1, "Programmed")["status"] == "False"
    await assert_nothing_left_to_write(store, operator)


@in_virtual_time
async def test_late_status_of_the_former_leader_is_corrected():
    store = cluster(gateway_named(G1))
    before, after = SimulatedOperator(store), SimulatedOperator(store, leads=False)
    await rest(store, before, after)
    after.reading.hold(R1.kind)
    store.put(route_r1())
    await asyncio.sleep(SOON)
    assert parents(store) == ["g1"]
    before.turn.give(leads=False)
    store.delete(G1)
    await asyncio.sleep(SOON)
    after.turn.give(leads=True)
    await asyncio.sleep(SOON)
    after.reading.release(R1.kind)
    await rest(store, before, after)
    assert parents(store) == []
    await assert_nothing_left_to_write(store, before, after)


@in_virtual_time
async def test_gateway_leaving_the_class_while_its_kind_was_not_served_is_released():
    store = cluster(gateway_named(G1))
    operator = SimulatedOperator(store)
    await rest(store, operator)
    store.take_away(G1.kind)
    await asyncio.sleep(20 * SOON)
    store.put(gateway_named(G1, STRANGERS))
    store.bring_back(G1.kind)
    await rest(store, operator)
    assert generated(store) == {}
    assert condition(store, G1, "Accepted")["reason"] == "Pending"
    await assert_nothing_left_to_write(store, operator)


@in_virtual_time
async def test_address_is_removed_with_the_service_while_the_class_is_invalid():
    """Although the operator started after that, so that it knows of no desired objects."""
    store = cluster(gateway_named(G1))
    operator = SimulatedOperator(store)
    await rest(store, operator)
    await operator.stop()
    store.delete(PARAMETERS)
    operator = SimulatedOperator(store)
    await rest(store, operator)
    assert store.documents[G1]["status"]["addresses"]
    store.delete(Key("Service", HOME, names.workload(G1.name)))
    await rest(store, operator)
    assert not store.documents[G1]["status"].get("addresses")
    await assert_nothing_left_to_write(store, operator)


@in_virtual_time
async def test_objects_kept_while_the_class_was_invalid_are_deleted_when_it_recovers():
    store = cluster(gateway_named(G1), class_parameters("vcl", autoscaling={"minReplicas": 1, "maxReplicas": 3}))
    operator = SimulatedOperator(store)
    await rest(store, operator)
    scaler = Key("HorizontalPodAutoscaler", HOME, names.workload(G1.name))
    assert scaler in store.documents
    await operator.stop()
    store.delete(PARAMETERS)
    operator = SimulatedOperator(store)
    await rest(store, operator)
    assert scaler in store.documents
    store.put(class_parameters("vcl"))
    await rest(store, operator)
    assert scaler not in store.documents
    await assert_nothing_left_to_write(store, operator)


@in_virtual_time
async def test_object_deleted_before_its_create_answer_is_recreated():
    """No watch reports it either: everything was listed again in between."""
    store = cluster()
    operator = SimulatedOperator(store)
    await rest(store, operator)
    account = Key("ServiceAccount", HOME, names.workload(G1.name))
    operator.writing.hold(answers_to(account.kind))
    operator.reading.hold(account.kind)
    store.put(gateway_named(G1))
    await asyncio.sleep(SOON)
    assert store.delete(account)
    store.compact()
    operator.reading.release(account.kind)
    await asyncio.sleep(SOON)
    operator.writing.release(answers_to(account.kind))
    await rest(store, operator)
    assert account in store.documents
    await assert_nothing_left_to_write(store, operator)


@in_virtual_time
async def test_routing_written_by_another_operator_between_our_writes_is_corrected():
    """A Gateway goes from one operator to another, and the one before hears of nothing but the new routing."""
    store = cluster(gateway_named(G1, port=80))
    before, after = SimulatedOperator(store), SimulatedOperator(store, class_name=OTHERS)
    await rest(store, before, after)
    routing = Key("ConfigMap", HOME, names.config_map(G1.name))
    late = {G1.kind, *(kind.name for kind in used_for(Use.OWNED))} - {routing.kind}
    before.reading.hold(*late)
    after.reading.hold(routing.kind)
    after.writing.hold(answers_to(routing.kind))
    store.put(gateway_named(G1, OTHERS, port=8080))
    await asyncio.sleep(SOON)
    assert sockets_in(store, routing) == ["http-80"], "the one before has it as it was again"
    before.reading.hold(routing.kind)
    after.writing.release(answers_to(routing.kind))
    await asyncio.sleep(SOON)
    before.reading.release(*late, routing.kind)
    after.reading.release(routing.kind)
    await rest(store, before, after)
    assert sockets_in(store, routing) == ["http-8080"]
    await assert_nothing_left_to_write(store, before, after, class_name=OTHERS)


@in_virtual_time
async def test_missing_labels_are_restored_although_routing_is_written_first():
    store = cluster(gateway_named(G1))
    operator = SimulatedOperator(store)
    await rest(store, operator)
    routing = Key("ConfigMap", HOME, names.config_map(G1.name))
    labels = store.documents[routing]["metadata"]["labels"]
    operator.turn.give(leads=False)
    store.patch(routing, {"metadata": {"labels": None}}, EDITOR)
    store.put(route_r1())
    await asyncio.sleep(SOON)
    operator.turn.give(leads=True)
    await rest(store, operator)
    assert store.documents[routing]["metadata"].get("labels") == labels
    await assert_nothing_left_to_write(store, operator)


@in_virtual_time
async def test_recreated_object_with_foreign_changes_is_complete():
    """It ends after it was found that others hold a field, and before all but that field is applied."""
    store = cluster(gateway_named(G1), class_parameters("vcl", replicas=2))
    operator = SimulatedOperator(store)
    await rest(store, operator)
    deployment = Key("Deployment", HOME, names.workload(G1.name))
    operator.writing.hold(answers_to(deployment.kind))
    store.patch(deployment, {"spec": {"replicas": 5}}, EDITOR)
    await asyncio.sleep(SOON)
    store.delete(deployment)
    operator.writing.release(answers_to(deployment.kind))
    await rest(store, operator)
    assert store.documents[deployment]["spec"]["replicas"] == 2
    await assert_nothing_left_to_write(store, operator)


@in_virtual_time
async def test_shards_of_the_former_leader_are_deleted(monkeypatch):
    """Not before the index names them no more: until then pods look for them."""
    monkeypatch.setattr(emitted, "PER_SHARD", 2)
    store = cluster(gateway_named(G1))
    before, after = SimulatedOperator(store), SimulatedOperator(store, leads=False)
    await rest(store, before, after)
    after.reading.hold(R1.kind)
    many = [route(HOME, f"r{number}", G1.name, backend={"name": BACKEND}) for number in range(6)]
    store.put(*many)
    await asyncio.sleep(SOON)
    assert len(maps(store)) == 4
    before.turn.give(leads=False)
    for one in many:
        store.delete(key_of(one))
    after.turn.give(leads=True)
    after.reading.release(R1.kind)
    await rest(store, before, after)
    assert maps(store) == [names.config_map(G1.name)]
    await assert_nothing_left_to_write(store, before, after)


@in_virtual_time
async def test_deleted_certificate_keeps_serving_after_a_restart_of_the_operator():
    """The copy in the Gateway's own Secret is the operator's memory."""
    store = cluster(gateway(HOME, G1.name, OURS, listeners=[https()]), certificate("g1.example.com"))
    copy = Key("Secret", HOME, names.secret(G1.name))
    first = SimulatedOperator(store, class_name=OURS)
    await rest(store, first)
    served = store.documents[copy]["data"]
    assert names.TLS in served
    store.delete(Key("Secret", HOME, CERTIFICATE))
    await rest(store, first)
    await first.stop()
    second = SimulatedOperator(store, class_name=OURS)
    await rest(store, second)
    assert store.documents[copy]["data"] == served
    (listener,) = store.documents[G1]["status"]["listeners"]
    reasons = {one["type"]: one["reason"] for one in listener["conditions"]}
    assert reasons["ResolvedRefs"] == "InvalidCertificateRef"
    # A removed reference is meant: the key goes with it.
    store.put(gateway_named(G1))
    await rest(store, second)
    assert "data" not in store.documents[copy] or names.TLS not in store.documents[copy]["data"]
    await assert_nothing_left_to_write(store, second)


@in_virtual_time
async def test_certificate_deleted_while_gateways_are_not_served_keeps_serving():
    """The Gateway is the same one when its kind is back, so its last valid certificate still counts."""
    made = gateway_named(G1)
    made["spec"]["listeners"].append(https())
    store = cluster(made, certificate("a.example.com"))
    operator = SimulatedOperator(store)
    await rest(store, operator)
    assert "https-443" in sockets_in(store, Key("ConfigMap", HOME, "g1-vcl"))
    store.take_away("Gateway")
    await rest(store, operator)
    store.delete(Key("Secret", HOME, CERTIFICATE))
    store.bring_back("Gateway")
    await rest(store, operator)
    assert "https-443" in sockets_in(store, Key("ConfigMap", HOME, "g1-vcl"))
    await assert_nothing_left_to_write(store, operator)
