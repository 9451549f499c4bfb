"""A round is sent to pods once, an object is deleted once its ttl has passed."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.operator.execute import invalidations as executing
from varnish_gateway.operator.execute.invalidations import InvalidationExecutor
from varnish_gateway.operator.observe.inputs import ObservedInput
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.observe.state import ObservedState
from varnish_gateway.operator.plan.invalidation.invalidations import AT_ONCE
from varnish_gateway.operator.plan.invalidation.progress import Round
from varnish_gateway.operator.plan.results import JobResult
from varnish_gateway.operator.status.answers import InvalidationAnswer
from varnish_gateway.translate.invalidation.request import PodRequest, RequestFault

KEY = Key("VarnishCacheInvalidation", "shop", "one")
OBJ = msgspec.convert(
    {"metadata": {"name": "one", "namespace": "shop", "uid": "u"}, "spec": {"gatewayRef": {"name": "gw"}}},
    api.VarnishCacheInvalidation,
)
PODS = tuple(GatewayPod(name, Key("Gateway", "shop", "gw"), "192.0.2.1", is_ready=True) for name in "abc")
ANSWERS = {
    "a": InvalidationAnswer((1,)),
    "b": InvalidationAnswer(None, "no answer in time"),
    "c": InvalidationAnswer(None, "wrong", is_rejection=True),
}
REQUEST = PodRequest(b"{}", ("everything",))


class World:
    """An executor with what planning asks for, and what became of it."""

    def __init__(self, sent: Round | None, expiry: float | None = None, *, is_deleting: bool = False) -> None:
        self.made = 0
        self.asked: list[tuple] = []
        self.deleted: list[tuple] = []
        observed = ObservedState("varnish")
        observed.inputs[KEY] = ObservedInput(OBJ, "7", b"null", is_deleting)
        self.sent = sent
        desired = SimpleNamespace(round=self.round, expiry=lambda _: expiry)
        self.executor = InvalidationExecutor(self, observed, desired, self)

    def round(self, _: Key) -> Round | None:
        self.made += 1
        return self.sent

    async def invalidate(self, *asked):
        self.asked.append(asked)
        return ANSWERS

    async def delete(self, *deleted):
        self.deleted.append(deleted)

    async def run(self) -> JobResult:
        result = JobResult()
        await self.executor.run(KEY, result)
        return result


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(executing.time, "time", lambda: 100.0)


async def test_answers_of_pods_come_back_as_a_value_and_are_counted():
    sent = Round(OBJ, REQUEST, PODS, "token")
    world = World(sent)
    result = await world.run()
    assert world.asked == [(PODS, b"{}", "token")]
    assert (result.round.sent, result.round.answers, result.round.at) == (sent, ANSWERS, 100.0)
    assert world.executor.counts == {"confirmed": 1, "unanswered": 1, "rejected": 1}


@pytest.mark.parametrize(
    "sent",
    [Round(OBJ, REQUEST), Round(OBJ, None), Round(OBJ, RequestFault("NoRoutes", "m"), PODS)],
    ids=["no pods", "no Gateway", "fault"],
)
async def test_round_without_anything_to_send_is_reported_all_the_same(sent):
    world = World(sent)
    result = await world.run()
    assert (world.asked, result.round.sent) == ([], sent)


async def test_one_whose_turn_it_is_not_is_left_alone():
    world = World(None)
    assert (await world.run()).round is None


async def test_object_is_deleted_in_the_observed_version_once_its_ttl_has_passed():
    world = World(Round(OBJ, REQUEST, PODS), expiry=100.0)
    await world.run()
    assert (world.deleted, world.asked) == ([(KEY, "u", "7")], [])
    early = World(Round(OBJ, REQUEST), expiry=100.1)
    await early.run()
    assert early.deleted == []
    held = World(Round(OBJ, REQUEST), expiry=1.0, is_deleting=True)
    await held.run()
    assert held.deleted == [], "another controller's finalizer holds it"


async def test_few_of_a_namespace_are_sent_at_a_time_and_the_content_of_others_is_not_made():
    gate = asyncio.Event()

    class Slow(World):
        async def invalidate(self, *_):
            await gate.wait()
            return {}

    world = Slow(Round(OBJ, REQUEST, PODS))
    running = [asyncio.create_task(world.run()) for _ in range(AT_ONCE + 3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert world.made == AT_ONCE
    gate.set()
    await asyncio.gather(*running)
    assert world.made == AT_ONCE + 3
