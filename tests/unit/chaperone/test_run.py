"""A bug in a task that nothing awaits: it is logged, it reaches later callers, and the process ends."""

import asyncio
import logging

import msgspec
import pytest

from varnish_gateway.chaperone.health import health_server
from varnish_gateway.chaperone.run import serve
from varnish_gateway.dataplane.assemble import collaborators
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.varnish.supervisor import Standing


class Supervisor:
    """A supervisor without a varnishd; once it ``is_broken``, a pass meets a bug."""

    running = child_running = is_broken = False
    launches, addresses = 0, ()

    async def ensure(self, *_):
        if self.is_broken:
            raise RuntimeError("a bug")
        return Standing()

    async def report_deaths(self): ...

    async def close(self): ...


class BrokenTls:
    """Certificates that meet a bug in the TLS terminator."""

    @property
    def ports(self):
        raise RuntimeError("a bug")


@pytest.fixture
def parts(tmp_path, monkeypatch):
    monkeypatch.setattr("varnish_gateway.dataplane.process.workdir.check_enterable", lambda *_: None)
    settings = Settings(work_dir=tmp_path, sockets=parse_listen("ghost-reload=127.0.0.1:0,http"))
    return settings, msgspec.structs.replace(collaborators(settings), supervisor=Supervisor())


@pytest.fixture
async def data_plane(parts):
    """Give a data plane whose tasks run without a varnishd."""
    made = DataPlane(*parts)
    yield made
    await made.stop(0)


def break_passes(parts):
    parts.supervisor.is_broken = True
    parts.work.set()


def break_terminator(parts):
    parts.terminator.update(BrokenTls(), ())
    parts.terminator.open()


both = pytest.mark.parametrize("break_it", [break_passes, break_terminator])


@both
async def test_bug_in_a_task_is_logged_and_reaches_later_applies(data_plane, parts, break_it, caplog):
    await data_plane.start()
    break_it(parts[1])
    with pytest.raises(RuntimeError, match="a bug"):
        await asyncio.wait_for(data_plane.broken(), 5)
    (logged,) = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert logged.exc_info[0] is RuntimeError
    with pytest.raises(RuntimeError, match="a bug"):
        await asyncio.wait_for(data_plane.apply(Change()), 5)


@both
async def test_bug_in_a_task_ends_the_process(data_plane, parts, break_it):
    asyncio.get_running_loop().call_soon(asyncio.create_task, break_once_running(data_plane, parts[1], break_it))
    never = asyncio.get_running_loop().create_future()
    with pytest.raises(RuntimeError, match="a bug"):
        await asyncio.wait_for(serve(data_plane, health_server(data_plane), asyncio.sleep(60), never), 5)


async def break_once_running(data_plane, parts, break_it):
    while not data_plane.is_running:
        await asyncio.sleep(0)
    break_it(parts)


async def test_requested_stop_is_no_error(data_plane):
    stop = asyncio.get_running_loop().create_future()
    stop.set_result(None)
    assert await serve(data_plane, health_server(data_plane), asyncio.sleep(60), stop) == 0
