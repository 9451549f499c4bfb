"""An operator starts on a busy node, where the thread that compiles regular expressions gets little of a core."""

import asyncio
import json
from collections.abc import Iterator, Sequence

from support.kube.documents import gateway, namespace, route
from support.simulation.documents import BACKEND, HOME, OURS, Document, basics
from support.simulation.operators import SimulatedOperator, at_rest
from support.simulation.store import Store
from support.simulation.virtualtime import in_virtual_time, now
from varnish_gateway import api
from varnish_gateway.emit import names
from varnish_gateway.runtime.match_compiler import CompiledTurn, compile_turn

GREEDY, MODEST = "greedy", "modest"
ROUTE_SECONDS = 0.1
"""A route takes so much time of the thread."""
CORE = 0.05
"""The part of a core that the thread gets."""
PROBE_SECONDS = 300
"""How long Kubernetes waits for a container that starts."""


async def slowly(routes: Sequence[api.Object]) -> CompiledTurn:
    await asyncio.sleep(ROUTE_SECONDS / CORE)
    return CompiledTurn(compile_turn(routes[:1]).objects, ROUTE_SECONDS)


def regex_route(place: str, number: int) -> Document:
    made = route(place, f"{place}-{number}", "g1", backend={"name": BACKEND, "namespace": HOME})
    made["spec"]["parentRefs"][0]["namespace"] = HOME
    made["spec"]["rules"][0]["matches"] = [{"path": {"type": "RegularExpression", "value": f"/{place}/{number}/[a-z]"}}]
    return made


def cluster(**counts: int) -> Store:
    """Return a cluster with so many routes with regular expressions in each of these namespaces."""
    store = Store()
    store.put(*basics(), gateway(HOME, "g1", OURS), *map(namespace, counts))
    store.put(*(regex_route(place, number) for place, count in counts.items() for number in range(count)))
    return store


def served(documents: list[Document]) -> Iterator[str]:
    """Yield the namespaces of routes that pods read."""
    for one in documents:
        for held in json.loads(one.get("data", {}).get(names.ROUTING, "{}")).get("routes", ()):
            yield held["namespace"]


def routing(store: Store) -> list[Document]:
    return [document for key, document in store.documents.items() if key.kind == "ConfigMap" and key.namespace == HOME]


async def restarted(store: Store) -> SimulatedOperator:
    """Have an operator serve all routes, then another one begin on a busy node; return it once it is synced."""
    first = SimulatedOperator(store)
    assert await at_rest(store, [first])
    await first.stop()
    began = now()
    second = SimulatedOperator(store, compiling=slowly)
    while not second.is_synced:
        await asyncio.sleep(1)
    assert now() - began < PROBE_SECONDS
    return second


@in_virtual_time
async def test_greedy_namespace_takes_no_served_route_from_a_modest_one():
    store = cluster(**{MODEST: 20, GREEDY: 80})
    operator = await restarted(store)
    lost: set[str] = set()
    for _ in range(600):
        found = list(served(routing(store)))
        lost |= {place for place, count in ((MODEST, 20), (GREEDY, 80)) if found.count(place) < count}
        await asyncio.sleep(1)
    assert lost == {GREEDY}
    assert len(found) == 100, "all are compiled in the end"
    assert operator.bugs == []
    await operator.stop()


@in_virtual_time
async def test_operator_is_synced_in_time_however_many_namespaces_are_greedy():
    store = cluster(**{f"{GREEDY}-{number}": 60 for number in range(5)}, modest=20)
    operator = await restarted(store)
    await asyncio.sleep(10)
    assert list(served(routing(store))).count(MODEST) == 20
    await operator.stop()
