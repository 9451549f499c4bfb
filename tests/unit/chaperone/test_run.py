"""A bug of ours in a task that nobody waits for: it is told, it reaches later callers, and the process ends."""

import asyncio
import logging

import pytest

from varnish_gateway.chaperone import run
from varnish_gateway.chaperone.health import health_server
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.settings import Settings


@pytest.fixture
async def data_plane(tmp_path, monkeypatch):
    """Give a data plane whose varnishd is not there; its tasks are."""
    monkeypatch.setattr("varnish_gateway.dataplane.process.workdir.check_enterable", lambda *_: None)
    made = DataPlane(Settings(work_dir=tmp_path, sockets=parse_listen("ghost-reload=127.0.0.1:0,http")))

    async def ensure(*_):
        return None

    monkeypatch.setattr(made.supervisor, "ensure", ensure)
    yield made
    await made.stop(0)


async def bug():
    raise RuntimeError("a bug")


def break_passes(data_plane):
    data_plane._pass = bug
    data_plane._work.set()


def break_front(data_plane):
    data_plane.front._keep = bug
    data_plane.front.open()


both = pytest.mark.parametrize("break_it", [break_passes, break_front])


@both
async def test_a_bug_that_nobody_waits_for_is_told_and_reaches_whoever_applies_later(data_plane, break_it, caplog):
    await data_plane.start()
    break_it(data_plane)
    with pytest.raises(RuntimeError, match="a bug"):
        await asyncio.wait_for(data_plane.broken(), 5)
    (told,) = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert told.exc_info[0] is RuntimeError
    with pytest.raises(RuntimeError, match="a bug"):
        await asyncio.wait_for(data_plane.apply(Change()), 5)


@both
async def test_the_process_ends_with_it(data_plane, break_it):
    asyncio.get_running_loop().call_soon(asyncio.create_task, begin_and_break(data_plane, break_it))
    never = asyncio.get_running_loop().create_future()
    with pytest.raises(RuntimeError, match="a bug"):
        await asyncio.wait_for(run._serve(data_plane, health_server(data_plane), asyncio.sleep(60), never), 5)


async def begin_and_break(data_plane, break_it):
    while data_plane._passes is None:
        await asyncio.sleep(0)
    break_it(data_plane)


async def test_a_stop_is_no_bug(data_plane):
    stop = asyncio.get_running_loop().create_future()
    stop.set_result(None)
    assert await run._serve(data_plane, health_server(data_plane), asyncio.sleep(60), stop) == 0
