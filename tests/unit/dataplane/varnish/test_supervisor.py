"""What of a supervisor needs no varnishd."""

import asyncio
import socket

import pytest

from varnish_gateway import errors
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.process.workdir import prepare
from varnish_gateway.dataplane.quarantine import Quarantine, QuarantineDelays
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.varnish import supervisor as module
from varnish_gateway.dataplane.varnish.cli import Admin, CliError
from varnish_gateway.dataplane.varnish.cli.answers import ListenAddress
from varnish_gateway.dataplane.varnish.supervisor import Supervisor

SECONDS = 10
FIRST_SECONDS = 0.5
"""Of a quarantine: longer than what a test does before it ends, also on a busy machine."""


class Varnishd:
    """Stands for a running manager."""

    pid, running, stops = 1, True, 0

    def __init__(self) -> None:
        self._exit = asyncio.Event()
        self._reason = ""

    async def exited(self) -> str:
        await self._exit.wait()
        return self._reason

    def exit(self, reason: str) -> None:
        self.running, self._reason = False, reason
        self._exit.set()

    async def stop(self) -> None:
        self.stops += 1


class Machine:
    """Launches; ``faults`` end the next ones."""

    def __init__(self) -> None:
        self.faults: list[errors.ChildExited] = []
        self.launched: list[str] = []
        self.varnishd = Varnishd()

    async def launch(self, argv, *_) -> Varnishd:
        self.launched.append(argv[-1])
        if self.faults:
            raise self.faults.pop(0)
        return self.varnishd


@pytest.fixture
def machine(monkeypatch):
    """Replace varnishd."""
    machine = Machine()

    async def nothing(*_) -> None: ...

    monkeypatch.setattr(module, "launch", machine.launch)
    monkeypatch.setattr(module, "rejection", nothing)
    monkeypatch.setattr(Supervisor, "_set_paths", nothing)
    return machine


@pytest.fixture
async def supervisor(tmp_path, monkeypatch, machine):  # noqa: ARG001 - there is no other varnishd
    monkeypatch.setattr("varnish_gateway.dataplane.process.workdir.check_enterable", lambda *_: None)
    settings = Settings(work_dir=tmp_path, sockets=parse_listen("ghost-reload=127.0.0.1:0,http"))
    woken = asyncio.Event()
    rejected = Quarantine(woken.set, QuarantineDelays(FIRST_SECONDS, 600))
    admin = Admin(b"")
    supervisor = Supervisor(settings, prepare(settings), admin, events.Bus(), woken.set, rejected=rejected)
    supervisor.woken, supervisor.admin = woken, admin
    yield supervisor
    await supervisor.close()


async def test_reload_port_is_known_once_a_worker_has_opened_it(supervisor):
    with pytest.raises(ConnectionError):
        _ = supervisor.reload_port
    supervisor.addresses = (ListenAddress("http-80", "0.0.0.0", 80), ListenAddress("ghost-reload", "127.0.0.1", 7))
    assert supervisor.reload_port == 7


@pytest.mark.parametrize("when", ["varnishd starts", "its worker starts"])
async def test_arguments_that_fail_to_start_are_retried_after_their_quarantine(supervisor, machine, when):
    listen = parse_listen("ghost-reload=127.0.0.1:0,http")
    problem = errors.ChildExited("no memory")
    await supervisor.ensure(listen, ("one",))
    if when == "varnishd starts":
        machine.faults = [problem]
        standing = await supervisor.ensure(listen, ("two",))
    else:
        await supervisor.ensure(listen, ("two",))
        standing = await supervisor.go_back(problem)
    assert standing.problem is problem
    for _ in range(2):
        standing = await supervisor.ensure(listen, ("two",))
        assert str(standing.problem) == "no memory"
    assert machine.launched == ["one", "two", "one"]
    await asyncio.wait_for(supervisor.woken.wait(), SECONDS)
    standing = await supervisor.ensure(listen, ("two",))
    assert standing.problem is None
    assert machine.launched == ["one", "two", "one", "two"]


async def test_new_varnishd_waits_for_the_ports_of_the_former_worker(supervisor, machine):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        listen = parse_listen(f"ghost-reload=127.0.0.1:0,http;http-1=127.0.0.1:{held.getsockname()[1]},http")
        await supervisor.ensure(listen, ("one",))
        held.listen()
        changing = asyncio.create_task(supervisor.ensure(listen, ("two",)))
        await asyncio.sleep(0.05)
        assert machine.launched == ["one"]
    await asyncio.wait_for(changing, SECONDS)
    assert machine.launched == ["one", "two"]


async def test_cancelled_stop_is_completed_by_the_next(supervisor, machine):
    varnishd = machine.varnishd = Varnishd()
    await supervisor.ensure(parse_listen("ghost-reload=127.0.0.1:0,http"))
    await asyncio.sleep(0)
    stopping = asyncio.create_task(supervisor.stop())
    await asyncio.sleep(0)
    stopping.cancel()  # in the turn in which the task that it waits for ends
    await asyncio.wait({stopping})
    assert stopping.cancelled()
    await supervisor.stop()
    assert varnishd.stops == 1


async def test_killed_check_of_arguments_is_retried_soon(supervisor, machine, monkeypatch):
    listen = parse_listen("ghost-reload=127.0.0.1:0,http")
    await supervisor.ensure(listen, ("one",))

    async def killed(_) -> None:
        raise errors.ChildExited("no memory")

    with monkeypatch.context() as patched:
        patched.setattr(module, "rejection", killed)
        standing = await supervisor.ensure(listen, ("two",))
    assert (str(standing.problem), standing.retry) == ("no memory", True)
    assert (await supervisor.ensure(listen, ("two",))).problem is None
    assert machine.launched == ["one", "two"]


async def test_rejected_arguments_are_retried_after_their_quarantine(supervisor, machine, monkeypatch):
    listen = parse_listen("ghost-reload=127.0.0.1:0,http")
    await supervisor.ensure(listen, ("one",))

    async def refusing(_) -> errors.ChildExited:
        return errors.ChildExited("no such file")

    with monkeypatch.context() as patched:
        patched.setattr(module, "rejection", refusing)
        for _ in range(2):
            standing = await supervisor.ensure(listen, ("two",))
            assert (str(standing.problem), standing.retry) == ("no such file", False)
    await asyncio.wait_for(supervisor.woken.wait(), SECONDS)
    assert (await supervisor.ensure(listen, ("two",))).problem is None
    assert machine.launched == ["one", "two"]


async def test_launch_is_counted_though_a_fault_follows(supervisor, machine, monkeypatch):
    listen = parse_listen("ghost-reload=127.0.0.1:0,http")
    await supervisor.ensure(listen, ("one",))
    await supervisor.stop()

    async def failing(_) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(module, "rejection", failing)
    with pytest.raises(BlockingIOError):
        await supervisor.ensure(listen, ("two",))
    assert machine.launched == ["one", "one"]
    assert (supervisor.running, supervisor.launches) == (True, 2)


class ScriptedAdmin(Admin):
    """Reports a worker in one state, with a port on which no process listens."""

    def __init__(self, port: int, state: str) -> None:
        super().__init__(b"")
        self._worker_port, self._state = port, state
        self.asked = 0

    async def status(self) -> str:
        self.asked += 1
        return self._state

    async def listen_addresses(self) -> tuple[ListenAddress, ...]:
        return (ListenAddress("ghost-reload", "127.0.0.1", self._worker_port),)


@pytest.mark.parametrize("state", ["starting", "running"])
async def test_varnishd_that_dies_before_its_worker_answers_is_noticed_at_once(tmp_path, monkeypatch, machine, state):
    monkeypatch.setattr("varnish_gateway.dataplane.process.workdir.check_enterable", lambda *_: None)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        listen = parse_listen("ghost-reload=127.0.0.1:0,http")
        settings = Settings(work_dir=tmp_path, sockets=listen)
        rejected = Quarantine(lambda: None, QuarantineDelays(FIRST_SECONDS, 600))
        admin = ScriptedAdmin(closed.getsockname()[1], state)
        supervisor = Supervisor(settings, prepare(settings), admin, events.Bus(), lambda: None, rejected=rejected)
        await supervisor.ensure(listen)
        starting = asyncio.create_task(supervisor.start_child())
        await asyncio.sleep(0)
        machine.varnishd.running = False
        with pytest.raises(ConnectionError, match="varnishd exited before its worker answered"):
            await asyncio.wait_for(starting, SECONDS)
        assert admin.asked == 1  # a varnishd that is gone would never answer
        await supervisor.close()


async def test_commands_to_a_varnishd_that_exited_fail_at_once(supervisor, machine):
    """A pass of the data plane asks varnishd again and again; each time it would wait ten seconds."""
    await supervisor.ensure(parse_listen("ghost-reload=127.0.0.1:0,http"))
    machine.varnishd.exit("killed")
    await asyncio.wait_for(supervisor.woken.wait(), SECONDS)
    with pytest.raises(CliError, match="the connection was closed"):
        await asyncio.wait_for(supervisor.admin.vcl_list(), SECONDS / 2)
