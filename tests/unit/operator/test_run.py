"""The operator as a whole: when it takes part in the election, and what /readyz says."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

import msgspec
import pytest

from support.held_regexes import HeldRegexes
from support.kube.documents import Document, gateway, route
from support.simulation.client import SimulatedClient
from support.simulation.documents import BACKEND, HOME, OURS, basics
from support.simulation.store import Store
from support.waiting import until_async
from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.emit import names, routing
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import wire
from varnish_gateway.operator import run
from varnish_gateway.operator.observe import references
from varnish_gateway.operator.plan import patches
from varnish_gateway.operator.run import Dependencies, Operator
from varnish_gateway.operator.settings import OperatorSettings
from varnish_gateway.runtime.environment import Address
from varnish_gateway.translate.route import regexes


class Candidate:
    """Leadership that records whether the operator campaigns. It never leads."""

    def __init__(self) -> None:
        self.campaigns = asyncio.Event()

    def holds(self) -> bool:
        return False

    async def wait(self, leading: bool) -> None:
        if leading:
            await asyncio.Event().wait()

    async def run(self) -> None:
        self.campaigns.set()
        await asyncio.Event().wait()


class Leader(Candidate):
    """Leads from the beginning."""

    def holds(self) -> bool:
        return True

    async def wait(self, leading: bool) -> None:
        if not leading:
            await asyncio.Event().wait()


class Refusing(SimulatedClient):
    """An API server that answers 500 to lists of paths that contain ``refused``."""

    refused = "no such path"

    async def read(self, path, **options):
        if self.refused in path:
            raise errors.ApiError("etcd has no leader", status=500)
        return await super().read(path, **options)


class Running(NamedTuple):
    operator: Operator
    client: Refusing
    leadership: Candidate
    store: Store


@contextlib.asynccontextmanager
async def running(refused: str = Refusing.refused, *documents: Document, leads: bool = False) -> AsyncIterator[Running]:
    """Give an operator in a cluster with one class that names user VCL."""
    store, leadership = Store(), Leader() if leads else Candidate()
    store.put(*basics(), *documents)
    client = Refusing(store, random.Random(1))
    client.refused = refused
    somewhere = Address("127.0.0.1", 0)
    settings = OperatorSettings(metrics=somewhere, health=somewhere)
    operator = Operator(settings, Dependencies(client, client, None, leadership))
    task = asyncio.create_task(operator.run())
    try:
        yield Running(operator, client, leadership, store)
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_operator_campaigns_only_after_it_has_read_the_cluster():
    async with running(refused="/httproutes") as (operator, client, leadership, _):
        await until_async(lambda: client.metrics.watch_restarts["HTTPRoute"] > 2, "no second attempt")
        assert not leadership.campaigns.is_set()
        status, text = operator.readiness()
        assert (status, "HTTPRoute" in text) == (503, True), text
        client.refused = Refusing.refused
        await until_async(leadership.campaigns.is_set, "no campaign")


async def test_referenced_object_that_can_not_be_read_is_named_by_readyz(monkeypatch):
    monkeypatch.setattr(references, "READ_SECONDS", 0.05)
    async with running(refused="metadata.name%3Dvcl") as (operator, client, leadership, _):
        await until_async(leadership.campaigns.is_set, "no campaign")
        status, text = operator.readiness()
        assert (status, "home/vcl" in text, "etcd has no leader" in text) == (503, True, True), text
        client.refused = Refusing.refused
        await until_async(lambda: operator.readiness()[0] == 200, "it is a problem still")


async def test_referenced_objects_that_are_too_many_to_watch_are_counted_by_readyz(monkeypatch):
    monkeypatch.setattr(references, "MOST_WATCHES", 0)
    async with running() as (operator, _, leadership, _):
        await until_async(leadership.campaigns.is_set, "no campaign")
        polled = "ok; 0 references are watched, 1 polled: home\n"
        await until_async(lambda: operator.readiness() == (200, polled), "it isn't polled")


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldRegexes]:
    found = HeldRegexes()
    monkeypatch.setattr(regexes, "compile_regex", found.compile_regex)
    yield found
    found.released.set()


def regex_route(name: str, pattern: str) -> Document:
    made = route(HOME, name, "gw", backend={"name": BACKEND})
    made["spec"]["rules"][0]["matches"] = [{"path": {"type": "RegularExpression", "value": pattern}}]
    return made


def written_routes(store: Store) -> list[str]:
    """Return the routes that pods read."""
    stored = store.documents.get(Key("ConfigMap", HOME, names.config_map("gw")), {})
    routing = msgspec.json.decode(stored.get("data", {}).get(names.ROUTING, "{}"))
    return sorted(one["name"] for one in routing.get("routes", ()))


async def test_regexes_of_a_route_delay_no_other_change(held: HeldRegexes):
    async with running(Refusing.refused, gateway(HOME, "gw", OURS), leads=True) as (operator, _, _, store):
        await until_async(lambda: operator.is_synced, "not synced")
        store.put(regex_route("slow", "/held-by-operator"))
        await until_async(held.began.is_set, "not compiled")
        store.put(route(HOME, "other", "gw", backend={"name": BACKEND}))
        await until_async(lambda: written_routes(store), "nothing written")
        assert written_routes(store) == ["other"]
        assert not held.released.is_set()
        held.released.set()
        await until_async(lambda: written_routes(store) == ["other", "slow"], "never compiled")


async def test_route_is_served_as_it_was_until_its_first_regex_is_compiled(held: HeldRegexes):
    plain, other = (route(HOME, name, "gw", backend={"name": BACKEND}) for name in ("slow", "other"))
    async with running(Refusing.refused, gateway(HOME, "gw", OURS), plain, leads=True) as (_, _, _, store):
        await until_async(lambda: written_routes(store) == ["slow"], "not written")
        store.put(regex_route("slow", "/held-for-the-next-version"))
        await until_async(held.began.is_set, "not compiled")
        store.put(other)
        await until_async(lambda: "other" in written_routes(store), "nothing written")
        assert written_routes(store) == ["other", "slow"]
        assert not held.released.is_set()


async def test_starting_operator_waits_for_regexes_so_that_no_served_route_is_missing(held: HeldRegexes):
    slow = regex_route("slow", "/held-at-the-start")
    async with running(Refusing.refused, gateway(HOME, "gw", OURS), slow, leads=True) as (operator, _, _, store):
        await until_async(held.began.is_set, "not compiled")
        assert not operator.is_synced
        assert operator.readiness() == (
            503,
            "regular expressions are not compiled yet, of so many routes and policies: 1\n",
        )
        held.released.set()
        await until_async(lambda: written_routes(store), "nothing written")
        assert written_routes(store) == ["slow"]


async def test_starting_operator_ends_its_wait_for_a_thread_that_makes_no_progress(
    held: HeldRegexes, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run, "FIRST_COMPILE_SECONDS", 0.05)
    slow = regex_route("slow", "/held-for-ever")
    other = route(HOME, "other", "gw", backend={"name": BACKEND})
    async with running(Refusing.refused, gateway(HOME, "gw", OURS), slow, other, leads=True) as (_, _, _, store):
        await until_async(lambda: written_routes(store) == ["other"], "the other route waits")
        assert not held.released.is_set()


def test_all_that_lies_beside_the_first_shard_fits_into_one_config_map():
    """The most of everything at once: the API server adds up the values of a ConfigMap."""
    own = wire.Listener("n" * 253, "https-65535", 65535, "https", "h" * 253, wire.CachePolicy(off=True))
    index = wire.Index(version=2, shards=("0" * 16,) * routing.MOST_SHARDS)
    sizes = {
        "main.vcl": run.USER_VCL_BYTES + len(main_vcl()),
        "listeners": run.LISTENERS_BYTES + run.POLICIES_BYTES + 64 * len(msgspec.json.encode(own)),
        "request rules": 10_000,
        "shards.json": len(msgspec.json.encode(index)),
        "fresh.json": patches.MOST_BYTES,
    }
    assert sum(sizes.values()) < 0.98 * 2**20, sizes
