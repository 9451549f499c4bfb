"""What others do at the worst moment: an object's end crosses our own writes, or two operators want it."""

import asyncio
import itertools
import json
import random
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cluster.apiserver.server import Cluster
from support.kube.documents import OURS, gateway, gateway_class, parameters, path_of, put, route, service
from support.kube.mirror import Mirror, decode_thing
from support.kube.operator_harness import OperatorHarness
from support.kube.operator_process import OperatorProcess
from support.waiting import until, until_async
from varnish_gateway import errors, ir
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.manifests import GatewayShape
from varnish_gateway.kinds import Use, used_for
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.events import Recorder
from varnish_gateway.kube.reflector import Reflector
from varnish_gateway.kube.resources import RESOURCES
from varnish_gateway.operator.execute.events import Warnings
from varnish_gateway.operator.execute.routing import RoutingWriter
from varnish_gateway.operator.execute.statuses import StatusWriter
from varnish_gateway.operator.execute.writer import Writer
from varnish_gateway.operator.observe.owned import OwnedObject, decode_config_map
from varnish_gateway.operator.observe.state import ObservedState
from varnish_gateway.operator.observe.watches import Watches
from varnish_gateway.operator.plan.results import JobResult
from varnish_gateway.operator.plan.statuses import DesiredStatuses
from varnish_gateway.operator.status.readiness import Readiness
from varnish_gateway.translate.gateway.listener_set_index import ListenerSetIndex

CONFIG_MAP = RESOURCES["ConfigMap"]
DEPTH = 2000
SWITCHES = 30
PAUSES = (0.0, 0.01, 0.05, 0.2)
"""Seconds between the switches: less and more than an operator needs for one."""
_turn = itertools.count(1)


@pytest.fixture
async def watches(client: Client) -> AsyncIterator[Watches]:
    watches = Watches(client, ObservedState(f"hostile-{next(_turn)}"))
    watching = asyncio.create_task(watches.run())
    async with asyncio.timeout(30):
        await watches.synced()
    yield watches
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching


def map_of(namespace: str, watches: Watches, *, labelled: bool = True) -> dict:
    labels = names.labels(namespace, "gw", watches.observed.class_key.name) if labelled else {}
    metadata = {"name": "gw-vcl", "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def write(client: Client, document: dict) -> OwnedObject:
    return decode_config_map(await client.apply(document, manager=names.GATEWAY_MANAGER))


# -- answers that come late -----------------------------------------------------------------


async def test_answer_to_a_write_after_the_object_was_deleted_is_ignored(watches, client, cluster, namespace):
    key = Key("ConfigMap", namespace, "gw-vcl")
    with watches.writing(key):
        answer = await write(client, map_of(namespace, watches))
        await until_async(lambda: key in watches.observed.owned, "it is observed")
        cluster.request("DELETE", CONFIG_MAP.path(namespace, "gw-vcl"))
        await until_async(lambda: key not in watches.observed.owned, "its deletion is observed")
        watches.record_owned(key, answer)
    assert key not in watches.observed.owned


async def test_answer_about_a_recreated_object_is_ignored(watches, client, cluster, namespace):
    key = Key("ConfigMap", namespace, "gw-vcl")
    before = await write(client, map_of(namespace, watches))
    cluster.request("DELETE", CONFIG_MAP.path(namespace, "gw-vcl"))
    after = await write(client, map_of(namespace, watches))
    await until_async(
        lambda: key in watches.observed.owned and watches.observed.owned[key].uid == after.uid,
        "the next one is observed",
    )
    watches.record_owned(key, before)
    assert watches.observed.owned[key].uid == after.uid


async def test_object_without_our_labels_is_not_recorded(watches, client, namespace):
    """The first write of a Gateway's routing makes a ConfigMap that has no labels yet."""
    key = Key("ConfigMap", namespace, "gw-vcl")
    watches.record_owned(key, await write(client, map_of(namespace, watches, labelled=False)))
    assert key not in watches.observed.owned
    watches.record_owned(key, await write(client, map_of(namespace, watches)))
    assert key in watches.observed.owned


async def test_main_vcl_is_not_applied_to_a_deleted_config_map(watches, client, cluster, namespace):
    """Another client deletes the ConfigMap between the two writes of one job."""
    main = await write(client, map_of(namespace, watches))
    cluster.request("DELETE", CONFIG_MAP.path(namespace, "gw-vcl"))
    shape = GatewayShape(namespace=namespace, name="gw", uid="none", class_name=watches.observed.class_key.name)
    with pytest.raises(errors.Conflict):
        await RoutingWriter(Writer(client), watches, None).ensure_vcl(shape, main, "vcl 4.1;", 1)
    assert not cluster.exists(CONFIG_MAP.path(namespace, "gw-vcl"))


async def test_deletion_of_an_object_that_was_only_noted_is_delivered(client, namespace):
    """We wrote it, and another client deleted it, while the watch was down."""
    mirror = Mirror()
    reflector = Reflector(client, CONFIG_MAP, decode_thing, mirror.update, namespace=namespace)
    reflector.note(Key("ConfigMap", namespace, "gw-vcl"), "1")
    running = asyncio.create_task(reflector.run())
    async with asyncio.timeout(30):
        await reflector.synced.wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert mirror.delivered == [("gw-vcl", None)]


@pytest.fixture
def readiness() -> dict[Key, Readiness]:
    return {}


@pytest.fixture
def desired(watches: Watches, readiness: dict[Key, Readiness]) -> DesiredStatuses:
    return DesiredStatuses(watches.observed, ListenerSetIndex(), readiness, lambda *_: {}, {})


@pytest.fixture
def statuses(watches: Watches, client: Client, desired: DesiredStatuses) -> StatusWriter:
    recorder = Recorder(client, component="test", instance="test")
    return StatusWriter(Writer(client), watches, desired, Warnings(recorder, watches.observed))


def accepted(generation: int) -> ir.Condition:
    return ir.Condition("Accepted", "True", "Accepted", "", generation)


async def test_recreated_route_gets_its_status_again(statuses, desired, watches, cluster, namespace):
    """Its status is due while it is deleted. Translation gets only the recreated route, and its status is the same."""
    key = Key("HTTPRoute", namespace, "tea")
    put(cluster, document := route(namespace, "tea", "gw"))
    await until_async(lambda: key in watches.observed.inputs, "it is observed")
    parent = ir.ParentRef(group="gateway.networking.k8s.io", kind="Gateway", name="gw")
    desired.update(key, ir.RouteStatus((ir.ParentStatus(parent, OURS, (accepted(1),)),)))
    cluster.request("DELETE", path_of(document))
    await until_async(lambda: key not in watches.observed.inputs, "its deletion is observed")
    await statuses.ensure(key, result := JobResult())
    for withdrawn in result.withdrawn:
        desired.on_withdrawn(withdrawn)
    put(cluster, document)
    await until_async(lambda: key in watches.observed.inputs, "it is observed again")
    assert key in desired
    await statuses.ensure(key, JobResult())
    assert [one["controllerName"] for one in cluster.request("GET", path_of(document))["status"]["parents"]] == [OURS]


async def test_status_is_not_stored_at_a_recreated_gateway(statuses, desired, readiness, cluster, namespace):
    """It would name a generation that the new Gateway has not reached."""
    key, observed = Key("Gateway", namespace, "gw"), desired.observed
    put(cluster, document := gateway(namespace, "gw", observed.class_key.name))
    await until_async(lambda: key in observed.inputs, "it is observed")
    before = observed.inputs[key]
    cluster.request("DELETE", path_of(document))
    put(cluster, document)
    await until_async(lambda: observed.inputs.get(key, before).version != before.version, "the next one is observed")
    observed.inputs[key] = before  # as if its events were late
    desired.update(key, ir.GatewayStatus((), (accepted(7),), ()))
    readiness[key] = Readiness(is_serving=False, reason="Pending")
    with pytest.raises(errors.Conflict):
        await statuses.ensure(key, JobResult())
    stored = {one["type"]: one for one in cluster.request("GET", path_of(document))["status"]["conditions"]}
    assert stored["Accepted"]["reason"] == "Pending"


# -- two operators and one Gateway ----------------------------------------------------------


@pytest.fixture
def rivals(
    cluster: Cluster, namespace: str, tmp_path: Path, operators: list[OperatorProcess]
) -> Iterator[list[OperatorHarness]]:
    """Have two operators of two classes that look at the same namespace."""
    for name in (f"{namespace}-a", f"{namespace}-b"):
        put(cluster, gateway_class(name))
        operators.append(OperatorProcess(cluster, tmp_path, class_name=name, name=name).start())
    yield [OperatorHarness(cluster, operator, namespace) for operator in operators]
    for operator in operators:
        operator.stop()


def test_gateway_moved_between_operators_ends_complete(rivals, namespace):
    chance = random.Random(4)
    harness = rivals[0]
    harness.put(gateway(namespace, "gw", harness.class_name), service(namespace, "tea"), route(namespace, "tea", "gw"))
    for _ in range(SWITCHES):
        to = chance.choice([*(harness.class_name for harness in rivals), "nobody"])
        harness.change("Gateway", "gw", {"spec": {"gatewayClassName": to}})
        time.sleep(chance.choice(PAUSES))
    for harness in rivals:
        harness.change("Gateway", "gw", {"spec": {"gatewayClassName": harness.class_name}})
        harness.wait_for(lambda harness=harness: is_whole(harness), "everything is there, and of this class")
    writes = [harness.operator.at_rest().writes() for harness in rivals]
    assert is_whole(rivals[-1])
    assert [harness.operator.writes() for harness in rivals] == writes


def is_whole(harness: OperatorHarness) -> bool:
    """Whether all objects of the Gateway are there, and of this class, and its route is routed."""
    made = {(one["kind"], one["metadata"]["name"]): one["metadata"] for one in harness.owned()}
    expected = {kind.name for kind in used_for(Use.OWNED)} - {"HorizontalPodAutoscaler", "PodDisruptionBudget"}
    return (
        {kind for kind, _ in made} == expected
        and all(metadata["labels"][names.CLASS_LABEL] == harness.class_name for metadata in made.values())
        and harness.routes() == {"tea"}
    )


# -- what stops an operator -----------------------------------------------------------------


def test_occupied_address_is_reported_without_a_traceback(cluster, namespace, tmp_path, operators):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        operator = OperatorProcess(cluster, tmp_path, class_name=namespace, environment={"METRICS_ADDR": address})
        operators.append(operator.launch())
        until(lambda: operator.ended() is not None, "it ends")
    assert operator.ended() == 2
    assert f"vgw: METRICS_ADDR: can't listen at {address}" in operator.log.read_text()
    assert "Traceback" not in operator.log.read_text()


def test_deeply_nested_object_does_not_stop_the_operator(cluster, namespace, tmp_path, operators):
    put(cluster, gateway_class(namespace))
    cluster.kubectl("create", "-f", "-", stdin=deep(namespace, DEPTH))
    try:
        operator = OperatorProcess(cluster, tmp_path, class_name=namespace)
        operators.append(operator)
        operator.start()
        cluster.kubectl("replace", "-f", "-", stdin=deep(namespace, DEPTH + 1))
        put(cluster, gateway(namespace, "gw", namespace))
        OperatorHarness(cluster, operator, namespace).until_observed()
    finally:
        cluster.kubectl("delete", "gatewayclassparameters", namespace)


def deep(name: str, depth: int) -> str:
    """Return GatewayClassParameters that the API server takes. No class has to name them."""
    mark = "deep"
    document = json.dumps(parameters(name, extraVolumes=[{"name": "x", "csi": mark}]))
    return document.replace(f'"{mark}"', '{"a":' * depth + "{}" + "}" * depth)
