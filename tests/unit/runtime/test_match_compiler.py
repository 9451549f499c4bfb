import asyncio
import os
import threading
from collections.abc import AsyncIterator, Sequence

import pytest

from support.builders.objects import gateway, keyed, route
from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.runtime import match_compiler
from varnish_gateway.runtime.match_compiler import CompiledTurn, MatchCompiler, compile_turn
from varnish_gateway.translate import Translator
from varnish_gateway.translate.compilation import compiled_key
from varnish_gateway.translate.route.compiled_matches import CompiledMatches, compile_matches


class Thread:
    """Runs one turn at a time, when the test says so; each route takes a second."""

    def __init__(self) -> None:
        self.turns: list[list[Key]] = []
        self._may_go_on = asyncio.Semaphore(0)

    async def run(self, routes: Sequence[api.HTTPRoute]) -> CompiledTurn:
        self.turns.append([api.key_of(one) for one in routes])
        await self._may_go_on.acquire()
        return CompiledTurn([compile_matches(routes[0])], 1.0)

    async def finish_turn(self) -> None:
        self._may_go_on.release()
        for _ in range(3):
            await asyncio.sleep(0)


@pytest.fixture
async def thread() -> Thread:
    return Thread()


@pytest.fixture
async def compiler(thread: Thread) -> AsyncIterator[MatchCompiler]:
    made = MatchCompiler(lambda: None, thread.run)
    yield made
    made.close()


def asked(name: str, namespace: str = "a", created: int = 0) -> dict[Key, api.HTTPRoute]:
    made = route(name, namespace, metadata={"creationTimestamp": f"1970-01-01T00:00:{created:02}Z"})
    return {api.key_of(made): made}


def key(name: str, namespace: str = "a") -> Key:
    return Key("HTTPRoute", namespace, name)


async def test_namespace_that_has_taken_least_comes_first(compiler: MatchCompiler, thread: Thread):
    compiler.update(asked("h1", "hostile") | asked("h2", "hostile") | asked("h3", "hostile"))
    await thread.finish_turn()
    compiler.update(asked("web", "modest"))
    for _ in range(3):
        await thread.finish_turn()
    assert [turn[0].name for turn in thread.turns] == ["h1", "h2", "web", "h3"]


async def test_namespace_that_comes_later_does_not_hold_up_one_that_was_served(compiler: MatchCompiler, thread: Thread):
    """A tenant who keeps the thread busy must not make others wait for all the time that they ever took."""
    compiler.update(asked("h0", "hostile") | {k: v for n in range(4) for k, v in asked(f"m{n}", "modest").items()})
    while sum(turn[0].namespace == "modest" for turn in thread.turns) < 4:
        compiler.update(asked(f"h{len(thread.turns)}", "hostile"))
        await thread.finish_turn()
    compiler.update({k: v for n in range(4) for k, v in asked(f"l{n}", "later").items()})
    compiler.update(asked("again", "modest"))
    began = len(thread.turns)
    for _ in range(4):
        await thread.finish_turn()
    names = [turn[0].name for turn in thread.turns[began:]]
    assert "again" in names[:3], names


async def test_oldest_route_of_a_namespace_comes_first(compiler: MatchCompiler, thread: Thread):
    compiler.update(asked("young", created=9) | asked("old", created=1))
    await thread.finish_turn()
    await thread.finish_turn()
    assert [turn[0].name for turn in thread.turns] == ["old", "young"]
    assert compiler.drain().keys() == {compiled_key(key("old")), compiled_key(key("young"))}
    assert compiler.drain() == {}


async def test_result_for_a_version_that_changed_meanwhile_is_dropped(compiler: MatchCompiler, thread: Thread):
    compiler.update(asked("web", created=1))
    await thread.finish_turn()
    compiler.drain()
    compiler.update(asked("web", created=2))
    await asyncio.sleep(0)
    newest = asked("web", created=3)
    compiler.update(newest)
    await thread.finish_turn()
    assert (compiler.drain(), len(compiler)) == ({}, 1)
    await thread.finish_turn()
    assert compiler.drain() == {compiled_key(key("web")): compile_matches(newest[key("web")])}


async def test_result_that_is_needed_no_longer_is_withdrawn(compiler: MatchCompiler, thread: Thread):
    compiler.update(asked("web"))
    await thread.finish_turn()
    compiler.drain()
    compiler.update({key("web"): None})
    assert compiler.drain() == {}, "translation has read the result, and keeps it"
    compiler.update({}, {key("web")})
    assert compiler.drain() == {compiled_key(key("web")): None}
    compiler.update({}, {key("web"), key("never-compiled")})
    assert compiler.drain() == {}


async def test_route_that_is_deleted_while_it_waits_is_not_compiled(compiler: MatchCompiler, thread: Thread):
    compiler.update(asked("first", created=1) | asked("second", created=2))
    await asyncio.sleep(0)
    compiler.update({key("second"): None})
    await thread.finish_turn()
    assert len(thread.turns) == 1
    assert await compiler.settle(None)
    assert len(compiler) == 0


async def test_bug_is_raised_where_results_are_read():
    notified = asyncio.Event()

    async def fail(_: Sequence[api.HTTPRoute]) -> CompiledTurn:
        raise ZeroDivisionError

    compiler = MatchCompiler(notified.set, fail)
    compiler.update(asked("web"))
    await asyncio.wait_for(notified.wait(), 5)
    with pytest.raises(ZeroDivisionError):
        compiler.drain()


async def test_thread_compiles_until_the_turn_is_over(monkeypatch: pytest.MonkeyPatch):
    routes = [*asked("a"), *asked("b")]
    objects = [*asked("a").values(), *asked("b").values()]
    assert len(compile_turn(objects).objects) == len(routes)
    monkeypatch.setattr(match_compiler, "TURN_SECONDS", -1.0)
    assert len(compile_turn(objects).objects) == 1


async def test_closed_compiler_leaves_no_task_behind(thread: Thread):
    compiler = MatchCompiler(lambda: None, thread.run)
    compiler.update(asked("web"))
    compiler.close()
    await compiler.settle(None)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_thread_has_a_lower_priority_than_the_event_loop(monkeypatch: pytest.MonkeyPatch):
    found: list[int] = []

    def compiled(asked: api.HTTPRoute) -> CompiledMatches:
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return compile_matches(asked)

    monkeypatch.setattr(match_compiler, "compile_object", compiled)
    compiler = MatchCompiler(lambda: None)
    compiler.update(asked("web"))
    await compiler.settle(None)
    assert found > [os.getpriority(os.PRIO_PROCESS, threading.get_native_id())]


async def test_settle_waits_for_the_thread():
    compiler = MatchCompiler(lambda: None)
    assert not await compiler.settle(None)
    compiler.update(asked("web"))
    assert await compiler.settle(None)
    assert compiler.drain().keys() == {compiled_key(key("web"))}


async def test_wait_ends_when_all_that_wait_have_taken_their_time(compiler: MatchCompiler, thread: Thread):
    """Of each route, the thread of this test takes a second."""
    compiler.update({k: v for n in range(9) for k, v in asked(f"h{n}", "hostile").items()})
    compiler.update({k: v for n in range(3) for k, v in asked(f"m{n}", "modest").items()})
    settling = asyncio.create_task(compiler.settle(60.0, of_namespace=4.0))
    for _ in range(6):
        await thread.finish_turn()
    assert not settling.done(), "the hostile namespace has taken three seconds"
    await thread.finish_turn()
    assert await settling
    compiled = [one.name for one in compiler.drain()]
    assert sorted(compiled) == ["h0", "h1", "h2", "h3", "m0", "m1", "m2"]
    assert len(compiler) == 5
    assert not await compiler.settle(60.0, of_namespace=4.0), "a later wait is as short"


async def test_wait_ends_at_its_time_whatever_the_thread_does(compiler: MatchCompiler, thread: Thread):
    compiler.update(asked("web"))
    assert not await compiler.settle(0.01, of_namespace=4.0)
    assert [len(turn) for turn in thread.turns] == [1], "it began"


async def test_translation_and_compiler_come_to_rest():
    match = {"path": {"type": "RegularExpression", "value": "/at-rest[0-9]"}}
    translator = Translator(assume_class=True, compiles=False)
    compiler = MatchCompiler(lambda: None)
    objects = keyed(gateway(), route(rules=[{"matches": [match]}]))
    for remaining in ([objects, 1], [{}, 0], [{}, 0]):
        changed, waiting = remaining
        delta = translator.update({**changed, **compiler.drain()})
        compiler.update(delta.uncompiled, delta.released)
        assert len(compiler) == waiting
        await compiler.settle(None)
    assert compiler.drain() == {}
    assert translator.update({}) == ir.Delta()
    delta = translator.update(dict.fromkeys(objects))
    compiler.update(delta.uncompiled, delta.released)
    assert compiler.drain() == {compiled_key(key("web", "default")): None}
