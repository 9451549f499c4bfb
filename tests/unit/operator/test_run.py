"""The operator as a whole: when it takes part in the election, and what /readyz says."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import NamedTuple

from support.simulation.client import SimulatedClient
from support.simulation.documents import basics
from support.simulation.store import Store
from support.waiting import until_async
from varnish_gateway import errors
from varnish_gateway.operator.observe import references
from varnish_gateway.operator.run import Dependencies, Operator
from varnish_gateway.operator.settings import OperatorSettings
from varnish_gateway.runtime.environment import Address


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


@contextlib.asynccontextmanager
async def running(refused: str = Refusing.refused) -> AsyncIterator[Running]:
    """Give an operator in a cluster with one class that names user VCL."""
    store, leadership = Store(), Candidate()
    store.put(*basics())
    client = Refusing(store, random.Random(1))
    client.refused = refused
    somewhere = Address("127.0.0.1", 0)
    settings = OperatorSettings(metrics=somewhere, health=somewhere)
    operator = Operator(settings, Dependencies(client, client, None, leadership))
    task = asyncio.create_task(operator.run())
    try:
        yield Running(operator, client, leadership)
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_operator_campaigns_only_after_it_has_read_the_cluster():
    async with running(refused="/httproutes") as (operator, client, leadership):
        await until_async(lambda: client.metrics.watch_restarts["HTTPRoute"] > 2, "no second attempt")
        assert not leadership.campaigns.is_set()
        status, text = operator.readiness()
        assert (status, "HTTPRoute" in text) == (503, True), text
        client.refused = Refusing.refused
        await until_async(leadership.campaigns.is_set, "no campaign")


async def test_referenced_object_that_can_not_be_read_is_named_by_readyz(monkeypatch):
    monkeypatch.setattr(references, "READ_SECONDS", 0.05)
    async with running(refused="metadata.name%3Dvcl") as (operator, client, leadership):
        await until_async(leadership.campaigns.is_set, "no campaign")
        status, text = operator.readiness()
        assert (status, "home/vcl" in text, "etcd has no leader" in text) == (503, True, True), text
        client.refused = Refusing.refused
        await until_async(lambda: operator.readiness()[0] == 200, "it is a problem still")
