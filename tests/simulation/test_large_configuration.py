"""A tenant can't make the routing of a shared Gateway too large for the API server, which would freeze all of it."""

import asyncio
import json
from collections.abc import Iterable

import pytest

from support.builders.meeting_names import MEETING
from support.kube.documents import gateway, listener_set, route
from support.simulation.documents import BACKEND, HOME, OURS, Document, basics, pod, with_parents
from support.simulation.operators import SimulatedOperator, at_rest
from support.simulation.store import Store
from support.simulation.virtualtime import in_virtual_time
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.routing import content_hash

EVERYWHERE = {"allowedListeners": {"namespaces": {"from": "All"}}}
TO_BACKEND = {"name": BACKEND}


def large_route(name: str) -> Document:
    """Return a route of less than 100,000 bytes, which is what one may have."""
    made = route(HOME, name, "g1", backend=TO_BACKEND)
    paths = [f"/{number:02}{'x' * 1000}" for number in range(90)]
    matches = [{"path": {"type": "Exact", "value": path}} for path in paths]
    (rule,) = made["spec"]["rules"]
    made["spec"]["rules"] = [{**rule, "matches": part} for part in (matches[:60], matches[60:])]
    return made


def set_of_listeners(name: str, *listeners: Document) -> Document:
    made = listener_set(HOME, name, "g1")
    made["spec"]["listeners"] = [{"protocol": "HTTP", **listener} for listener in listeners]
    return made


def routes_whose_names_meet() -> list[Document]:
    return [large_route(name) for name in MEETING]


def route_on_many_listeners() -> list[Document]:
    sets = [
        set_of_listeners(f"s{one}", *({"name": f"l{port}", "port": port} for port in range(first, first + 64)))
        for one, first in enumerate(range(20_000, 20_000 + 8 * 64, 64))
    ]
    made = with_parents(route(HOME, "wide", "g1", backend=TO_BACKEND), *(("ListenerSet", f"s{n}") for n in range(8)))
    made["spec"]["hostnames"] = [f"{'.'.join(['x' * 60] * 3)}.h{number}.example.com" for number in range(16)]
    return [*sets, made]


def many_listeners_with_long_names() -> list[Document]:
    host = ".".join(["x" * 60] * 3)
    return [
        set_of_listeners(
            f"s{one}{'x' * 200}",
            *({"name": f"l{n}{'x' * 200}", "port": 80, "hostname": f"h{n}.s{one}.{host}"} for n in range(64)),
        )
        for one in range(30)
    ]


def is_readable(store: Store, text: str) -> bool:
    """Whether pods find a text in routing: in a shard that the index names."""
    main = store.documents[config_map(0)]["data"]
    index = json.loads(main[names.INDEX])["shards"] if names.INDEX in main else [""]
    shards = (store.documents[config_map(number)]["data"][names.ROUTING] for number in range(len(index)))
    return any(
        text in shard and (not number or content_hash(shard.encode()) == index[number])
        for number, shard in enumerate(shards)
    )


def config_map(number: int) -> Key:
    return Key("ConfigMap", HOME, names.config_map("g1", number))


ATTACKS = [routes_whose_names_meet, route_on_many_listeners, many_listeners_with_long_names]


async def attacked(attack: Iterable[Document]) -> tuple[Store, SimulatedOperator]:
    """Return a cluster with an ordinary route on a Gateway that a tenant attacks, and its operator."""
    store = Store()
    ordinary = route(HOME, "ordinary", "g1", backend=TO_BACKEND)
    store.put(*basics(), gateway(HOME, "g1", OURS, **EVERYWHERE), pod("pod", "g1", OURS), ordinary)
    operator = SimulatedOperator(store)
    await asyncio.sleep(5)
    store.give_addresses()
    store.put(*attack)
    await asyncio.sleep(5)
    return store, operator


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
@in_virtual_time
async def test_routes_of_others_still_reach_the_pods(attack):
    store, operator = await attacked(attack())
    store.put(route(HOME, "ordinary", "g1", host="changed.example.com", backend=TO_BACKEND))
    await asyncio.sleep(5)
    assert is_readable(store, "changed.example.com")
    assert await at_rest(store, [operator])
    assert operator.bugs == []
    await operator.stop()


@in_virtual_time
async def test_route_on_too_many_listeners_is_not_accepted():
    store, operator = await attacked(route_on_many_listeners())
    parents = store.documents[Key("HTTPRoute", HOME, "wide")]["status"]["parents"]
    found = {one["status"] for parent in parents for one in parent["conditions"] if one["type"] == "Accepted"}
    assert (len(parents), found) == (8, {"False"})
    await operator.stop()


@in_virtual_time
async def test_status_of_the_gateway_names_routes_that_are_left_out():
    store, operator = await attacked(routes_whose_names_meet())
    assert await at_rest(store, [operator])
    conditions = store.documents[Key("Gateway", HOME, "g1")]["status"]["conditions"]
    (programmed,) = (one for one in conditions if one["type"] == "Programmed")
    assert programmed["status"] == "True"
    assert f"{HOME}/bbbb" in programmed["message"]
    await operator.stop()
