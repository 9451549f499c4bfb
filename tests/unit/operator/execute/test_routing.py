"""Writes of a Gateway's shards when one of them fails."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from support.builders.desired import desired_gateway, routes
from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.kube.metrics import Metrics
from varnish_gateway.operator.execute.routing import RoutingWriter
from varnish_gateway.operator.observe.state import ObservedState
from varnish_gateway.operator.observe.watches import Watches
from varnish_gateway.operator.plan.gateway import DesiredGateway
from varnish_gateway.operator.plan.results import JobResult

MANY = 200


class SlowWriter:
    """A Writer that rejects one ConfigMap and delays another until ``may_go_on``."""

    def __init__(self, rejected: str, slow: str) -> None:
        self.written: list[str] = []
        self.may_go_on = asyncio.Event()
        self._rejected = rejected
        self._slow = slow

    async def get(self, _: Key) -> None:
        return None

    async def apply(self, manifest: dict[str, Any], **_: object) -> bytes:
        name = manifest["metadata"]["name"]
        if name == self._rejected:
            raise errors.Conflict("another writer was faster")
        if name == self._slow:
            await self.may_go_on.wait()
        self.written.append(name)
        return json.dumps({"metadata": manifest["metadata"]}).encode()


@pytest.fixture
def several() -> DesiredGateway:
    """Return a Gateway with several shards."""
    desired = desired_gateway(with_routes=routes(0, *(f"r{number}" for number in range(MANY))))
    desired.rebuild()
    desired.pending_access.clear()
    return desired


async def test_failed_shard_write_waits_for_the_others_and_writes_no_index(several):
    """A write left running would overwrite the next one of its shard."""
    writer = SlowWriter("gw-vcl-1", "gw-vcl-2")
    watches = Watches(SimpleNamespace(metrics=Metrics()), ObservedState("varnish"))
    routing = RoutingWriter(writer, watches, SimpleNamespace())
    writing = asyncio.create_task(routing.ensure(several, JobResult()))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not writing.done(), "a write is under way"
    writer.may_go_on.set()
    with pytest.raises(errors.Conflict):
        await writing
    assert "gw-vcl-2" in writer.written
    assert "gw-vcl" not in writer.written, "an index must not name missing shards"
    assert {1, 2} <= several.routing.dirty
