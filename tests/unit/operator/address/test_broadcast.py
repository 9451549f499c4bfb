"""One invalidation, and pods that answer, are silent, go, restart and join. Time is virtual."""

import asyncio
from collections.abc import Callable

import pytest

from support.simulation.virtualtime import in_virtual_time, now
from varnish_gateway.api import Key
from varnish_gateway.operator.address.broadcast import Broadcast
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.status.answers import InvalidationAnswer

SECONDS = 25.0
REFUSED = InvalidationAnswer(None, "no answer: connection refused")


def pod(name: str, **more) -> GatewayPod:
    return GatewayPod(name, Key("Gateway", "shop", "web"), "192.0.2.1", is_ready=True, **more)


class Pods:
    """``answers`` are those of each pod, the last one for ever; one without any never answers."""

    def __init__(self, **answers: list[InvalidationAnswer]) -> None:
        self.answers = answers
        self.present = {name: pod(name) for name in answers}
        self.asked: list[str] = []
        self.broadcast = Broadcast(lambda: tuple(self.present.values()), self.ask, 2)

    async def ask(self, one: GatewayPod) -> InvalidationAnswer:
        self.asked.append(one.name)
        answers = self.answers[one.name]
        await asyncio.sleep(0.01)
        if not answers:
            await asyncio.Event().wait()
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def run(self, change: Callable[[], None] | None = None) -> float:
        """Return how long it took; ``change`` comes after a second."""
        began = now()
        if change is not None:
            asyncio.get_running_loop().call_later(1.0, change)
        await self.broadcast.run(SECONDS)
        return now() - began

    def results(self) -> dict[str, str]:
        return {name: one.reason for name, one in self.broadcast.accounts.results.items()}


def counts(*numbers: int) -> list[InvalidationAnswer]:
    return [InvalidationAnswer(numbers)]


@in_virtual_time
async def test_objects_are_summed_over_pods_that_are_asked_at_the_same_time():
    pods = Pods(a=counts(1, 2), b=counts(0, 0), c=counts(10, 20))
    assert await pods.run() < 0.02
    assert pods.broadcast.objects == [11, 22]
    assert pods.results() == dict.fromkeys("abc", "Confirmed")
    assert pods.broadcast.open == []


@in_virtual_time
async def test_gateway_without_pods_holds_nothing():
    pods = Pods()
    assert await pods.run() == 0
    assert (pods.broadcast.objects, pods.results()) == ([0, 0], {})


@in_virtual_time
async def test_silent_pod_is_named_after_the_time_and_hides_no_other():
    pods = Pods(a=counts(1, 2), b=[])
    assert await pods.run() == pytest.approx(SECONDS)
    assert pods.results() == {"a": "Confirmed", "b": "Unanswered"}
    assert [one.name for one in pods.broadcast.open] == ["b"]
    assert pods.broadcast.objects == [1, 2]
    assert pods.asked == ["a", "b"]
    assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing is asked any more"


@in_virtual_time
async def test_pod_that_refuses_connections_is_asked_again_until_it_confirms():
    pods = Pods(a=[REFUSED, REFUSED, *counts(3, 0)], b=counts(1, 0))
    assert await pods.run() < 1
    assert pods.results() == {"a": "Confirmed", "b": "Confirmed"}
    assert (pods.asked.count("a"), pods.asked.count("b"), pods.broadcast.objects) == (3, 1, [4, 0])


@pytest.mark.parametrize("answers", [[], [REFUSED]], ids=["silent", "refusing"])
def test_pod_that_goes_before_it_answers_is_named_as_gone(answers):
    @in_virtual_time
    async def test() -> None:
        pods = Pods(a=counts(1, 1), b=answers)
        assert 1 <= await pods.run(lambda: pods.present.pop("b")) < 1.5
        assert pods.results() == {"a": "Confirmed", "b": "Gone"}

    test()


@in_virtual_time
async def test_pod_whose_gateway_ends_has_an_empty_cache_from_then_on():
    pods = Pods(a=counts(1, 1), b=[])
    assert 1 <= await pods.run(lambda: pods.present.update(b=pod("b", is_running=False))) < 1.5
    assert pods.results() == {"a": "Confirmed", "b": "Empty"}


@in_virtual_time
async def test_pod_that_joins_while_others_are_asked_is_asked_too():
    pods = Pods(a=[*[REFUSED] * 4, *counts(1, 1)])

    def join() -> None:
        pods.answers["b"] = counts(2, 2)
        pods.present["b"] = pod("b")

    await pods.run(join)
    assert pods.results() == {"a": "Confirmed", "b": "Confirmed"}
    assert pods.broadcast.objects == [3, 3]


@in_virtual_time
async def test_document_that_a_pod_rejects_is_not_sent_again():
    wrong = InvalidationAnswer(None, "targets[0].matching.pattern: unclosed group", is_rejection=True)
    pods = Pods(a=[wrong], b=[])
    assert await pods.run() < 1
    assert pods.broadcast.accounts.rejection == "targets[0].matching.pattern: unclosed group"
    assert pods.asked == ["a", "b"]


@in_virtual_time
async def test_nothing_is_left_running_after_a_bug():
    async def broken(one: GatewayPod) -> InvalidationAnswer:
        if one.name == "a":
            raise RuntimeError("a bug")
        return await asyncio.get_running_loop().create_future()

    broadcast = Broadcast(lambda: [pod("a"), pod("b")], broken, 1)
    with pytest.raises(RuntimeError, match="a bug"):
        await broadcast.run(SECONDS)
    assert asyncio.all_tasks() == {asyncio.current_task()}
