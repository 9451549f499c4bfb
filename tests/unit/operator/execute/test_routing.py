"""Writes of a Gateway's shards when some of them fail."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from support.builders.plans import plan, routes
from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.kube.metrics import Metrics
from varnish_gateway.operator.execute.routing import Routing
from varnish_gateway.operator.observe.sources import Sources
from varnish_gateway.operator.plan.gateway import Plan

MANY = 200


class Slow:
    """A Writer: one ConfigMap is refused, another one is written only when it may be."""

    def __init__(self, refused: str, slow: str) -> None:
        self.written: list[str] = []
        self.may_go_on = asyncio.Event()
        self._refused = refused
        self._slow = slow

    async def get(self, _: Key) -> None:
        return None

    async def apply(self, manifest: dict[str, Any], **_: object) -> bytes:
        name = manifest["metadata"]["name"]
        if name == self._refused:
            raise errors.Conflict("somebody else was faster")
        if name == self._slow:
            await self.may_go_on.wait()
        self.written.append(name)
        return json.dumps({"metadata": manifest["metadata"]}).encode()


@pytest.fixture
def several() -> Plan:
    """Have the plan of a Gateway with several shards."""
    made = plan(with_routes=routes(0, *(f"r{number}" for number in range(MANY))))
    made.settle()
    made.unread.clear()
    return made


async def test_no_write_is_left_behind_when_another_one_fails(several):
    """It would come later than the next one of its shard, and undo that."""
    writer = Slow("gw-vcl-1", "gw-vcl-2")
    sources = Sources(SimpleNamespace(metrics=Metrics()), "varnish")
    routing = Routing(writer, sources, SimpleNamespace(), lambda _: None)
    bringing = asyncio.create_task(routing.bring(several))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not bringing.done(), "a write is under way"
    writer.may_go_on.set()
    with pytest.raises(errors.Conflict):
        await bringing
    assert "gw-vcl-2" in writer.written
    assert "gw-vcl" not in writer.written, "no index of what is not there"
    assert {1, 2} <= several.doubted
