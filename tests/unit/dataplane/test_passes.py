"""Passes of a data plane whose varnishd and ghost are a few lines: whatever fails, what was good comes back."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from varnish_gateway import errors
from varnish_gateway.dataplane import events, quarantine
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.varnish import supervisor
from varnish_gateway.dataplane.varnish.cli import CliError, Status
from varnish_gateway.dataplane.varnish.cli.answers import ListenAddress, VclEntry
from varnish_gateway.dataplane.varnish.supervisor import Standing, Supervisor
from varnish_gateway.ir import wire
from varnish_gateway.ir.reserved import RELOAD_SOCKET

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
REFUSED = b"HTTP/1.1 500 No\r\nX-Ghost-Error: unsound\r\nContent-Length: 0\r\n\r\n"


class Machine(Supervisor):
    """Stands for varnishd, its command line, its worker and ghost inside it.

    ``faults`` end the next starts of a worker, ``load_faults`` the next loads. No VCL with ``refused`` in it
    compiles, no worker starts with a VCL or routes that have ``unsound`` in them, and ``deadly`` routes kill it.
    A VCL that is "deaf" does not let ghost be asked.
    """

    def begin(self, config: Path) -> None:
        self._config = config
        self._vcls: dict[str, str] = {}
        self._in_use = ""
        self.faults: list[Exception] = []
        self.load_faults: list[Exception] = []
        self.ensure_faults: list[Exception] = []
        self.refused, self.unsound, self.deadly = "nonsense", "unsound", ""
        self.reloads: list[str] = []
        self.starts_by_itself = False
        self.loads = 0
        self.loaded = asyncio.Event()
        self.compiling = asyncio.Event()
        self.compiling.set()

    # -- what a data plane asks of a supervisor ----------------------------------------

    @property
    def running(self) -> bool:
        return True

    async def ensure(self, *_) -> Standing:
        if self.ensure_faults:
            raise self.ensure_faults.pop(0)
        return Standing()

    async def report_deaths(self) -> None:
        self._deaths.clear()

    async def start_child(self) -> bool:
        if self.faults:
            raise self.faults.pop(0)
        if any(self.unsound in text for text in (*self._vcls.values(), self._routes())):
            raise errors.ChildExited("varnishd's worker does not start")
        self.addresses = (ListenAddress(RELOAD_SOCKET, "127.0.0.1", self.port),)
        self.child_running = True
        self._death.clear()
        return not self.starts_by_itself

    # -- what happens to it --------------------------------------------------------------

    def lose_worker(self) -> None:
        self.child_running = False
        self._death.set()

    def lose_varnishd(self) -> None:
        self.lose_worker()
        self.launches += 1
        self._vcls.clear()

    @property
    def serves(self) -> tuple[str, str]:
        """The VCL in use, and the routes in force as the disk has them."""
        assert self.child_running
        return self._vcls[self._in_use], self._routes()

    def _routes(self) -> str:
        manifest = msgspec.json.decode(self._config.read_bytes(), type=wire.Manifest)
        return ",".join(self._config.with_name(name).read_text() for name in manifest.routing)

    async def answer(self, reader, writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if self.child_running:
            self.reloads.append(self._routes())
            if self.deadly and self.deadly in self._routes():
                self.lose_worker()
            else:
                is_bad = self.unsound in self._routes() or "deaf" in self._vcls[self._in_use]
                writer.write(REFUSED if is_bad else OK)
        writer.close()

    # -- its command line ----------------------------------------------------------------

    async def vcl_load(self, name: str, path: str) -> None:
        self.loads += 1
        self.loaded.set()
        await self.compiling.wait()
        if self.load_faults:
            raise self.load_faults.pop(0)
        text = Path(path).read_text()
        if self.refused in text:
            raise CliError("vcl.load", Status.PARAMETER, "no such word")
        self._vcls[name] = text

    async def vcl_use(self, name: str) -> None:
        self._in_use = name

    async def vcl_list(self) -> list[VclEntry]:
        return [
            VclEntry(name=name, status="active" if name == self._in_use else "available", state="auto", temperature="")
            for name in self._vcls
        ]

    async def vcl_discard(self, name: str) -> None:
        del self._vcls[name]


@pytest.fixture
async def plane(tmp_path, monkeypatch):
    monkeypatch.setattr("varnish_gateway.dataplane.process.workdir.check_enterable", lambda *_: None)
    monkeypatch.setattr("varnish_gateway.dataplane.retry.FIRST_SECONDS", 0.01)
    monkeypatch.setattr("varnish_gateway.dataplane.retry.LAST_SECONDS", 0.04)
    monkeypatch.setattr("varnish_gateway.dataplane.dataplane.Supervisor", Machine)
    monkeypatch.setattr(supervisor, "COMPLAINT_SECONDS", 0.05)
    plane = DataPlane(Settings(work_dir=tmp_path, sockets=parse_listen("ghost-reload=127.0.0.1:0,http")))
    plane.supervisor.begin(tmp_path / "ghost" / "ghost.json")
    plane._vcl._admin = plane.supervisor
    server = await asyncio.start_server(plane.supervisor.answer, "127.0.0.1", 0)
    plane.supervisor.port = server.sockets[0].getsockname()[1]
    plane.front.start()
    plane._passes = asyncio.create_task(plane._pass_forever())
    plane._passes.add_done_callback(plane._passes_ended)
    yield plane
    await plane._end_passes()
    await plane.front.stop()
    server.close()


def routes(name: str) -> dict[int, bytes | None]:
    return {0: name.encode()}


async def apply(plane, **change):
    """Apply, without the join: what routes mean is not looked at here."""
    if "routing" in change:
        plane._wanted._files.update(change.pop("routing"), {})
        plane._wanted._bundle = plane._wanted._files.bundle()
    return await asyncio.wait_for(plane.apply(Change(**change)), 5)


async def until_it_serves(plane, vcl: str, routing: str) -> None:
    async with asyncio.timeout(5):
        while not (plane.supervisor.child_running and plane.supervisor.serves == (vcl, routing)):
            await asyncio.sleep(0.01)


def no_memory() -> errors.ChildExited:
    return errors.ChildExited("no memory")


async def test_a_worker_that_stopped_is_started_also_when_something_else_is_wanted_by_then(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.lose_worker()
    plane.supervisor.faults = [no_memory(), no_memory()]
    assert not (await apply(plane, routing=routes("b"))).serves
    await until_it_serves(plane, "one", "b")


async def test_a_first_worker_that_does_not_start_is_tried_again_with_what_is_wanted_by_then(plane):
    plane.supervisor.faults = [no_memory()]
    assert not (await apply(plane, vcl="one", routing=routes("a"))).serves
    assert (await apply(plane, routing=routes("b"))).serves
    assert plane.supervisor.serves == ("one", "b")


async def test_what_no_worker_ran_with_is_not_good(plane):
    plane.supervisor.faults = [no_memory()]
    await apply(plane, vcl="one", routing=routes("a"))
    assert plane.in_force is None
    assert plane.served.reason == "varnishd's worker does not run"


async def test_a_worker_that_began_before_the_last_write_is_asked_to_read(plane):
    plane.supervisor.starts_by_itself = True
    plane.supervisor.faults = [ConnectionError("varnishd's worker does not answer")]
    assert not (await apply(plane, vcl="one", routing=routes("a"))).serves
    assert (await apply(plane, routing=routes("b"))).serves
    plane.supervisor.lose_worker()
    assert (await apply(plane)).serves
    assert plane.supervisor.reloads == ["b"]


async def test_a_vcl_with_which_no_worker_starts_is_not_in_the_way_of_the_next(plane):
    assert not (await apply(plane, vcl="unsound", routing=routes("a"))).serves
    assert (await apply(plane, vcl="two")).serves
    assert plane.supervisor.serves == ("two", "a")


async def test_news_with_which_no_worker_starts_give_way_to_what_was_good(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.lose_worker()
    plane.supervisor.faults = [no_memory()]
    assert not (await apply(plane, vcl="unsound", routing=routes("unsound"))).serves
    assert plane.in_force.vcl == "one"
    plane._wanted.vcl = "nonsense"
    await until_it_serves(plane, "one", "a")
    outcome = await apply(plane)
    assert [type(problem) for problem in outcome.problems] == [errors.ReloadRefused, errors.VclRejected]


@pytest.mark.parametrize("status", [Status.COMMUNICATION, Status.PARAMETER])
async def test_the_last_good_vcl_is_offered_until_varnishd_takes_it(plane, status):
    await apply(plane, vcl="one", routing=routes("a"))
    await apply(plane, vcl="nonsense")
    plane.supervisor.lose_varnishd()
    plane.supervisor.load_faults = [CliError("vcl.load", status, "no space") for _ in range(3)]
    outcome = await apply(plane, routing=routes("b"))
    assert not outcome.serves
    assert not plane.served.ready
    await until_it_serves(plane, "one", "b")
    assert [type(problem) for problem in (await apply(plane)).problems] == [errors.VclRejected]


async def test_a_vcl_that_was_good_is_compiled_again_though_nothing_else_is_wanted(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.lose_varnishd()
    plane.supervisor.load_faults = [CliError("vcl.load", Status.PARAMETER, "no space") for _ in range(3)]
    assert not (await apply(plane)).serves
    await until_it_serves(plane, "one", "a")


async def test_a_refused_vcl_is_not_compiled_again_for_a_worker_that_died(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    await apply(plane, vcl="nonsense")
    plane.supervisor.lose_worker()
    await apply(plane)
    assert plane.supervisor.serves == ("one", "a")
    assert plane.supervisor.loads == 2


async def test_a_corrected_vcl_serves_though_the_last_good_one_is_refused_now(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.lose_varnishd()
    plane.supervisor.refused = "one"
    assert (await apply(plane, vcl="two")).serves
    assert plane.supervisor.serves == ("two", "a")


async def test_a_configuration_that_kills_workers_is_refused_after_the_second(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.deadly = "b"
    await apply(plane, routing=routes("b"))
    async with asyncio.timeout(5):
        while not any(isinstance(problem, errors.ReloadRefused) for problem in plane._outcome.problems):
            await asyncio.sleep(0.01)
    assert plane.supervisor.serves == ("one", "a")
    assert plane.served.ready
    assert not plane.served.up_to_date
    await apply(plane)
    assert plane.supervisor.reloads == ["b", "b"]
    assert (await apply(plane, routing=routes("c"))).serves


async def test_a_reload_without_an_answer_of_a_worker_that_lives_is_no_refusal(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.deadly = "b"
    plane.supervisor.lose_worker, lose_worker = lambda: None, plane.supervisor.lose_worker
    for _ in range(3):
        assert not (await apply(plane, routing=routes("b"))).serves
    plane.supervisor.lose_worker, plane.supervisor.deadly = lose_worker, ""
    assert (await apply(plane)).serves


async def test_it_is_not_up_to_date_while_a_change_is_on_its_way(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    assert plane.served.up_to_date
    plane.supervisor.compiling.clear()
    changing = asyncio.create_task(apply(plane, vcl="two"))
    await asyncio.sleep(0.05)
    assert not plane.served.up_to_date
    later = asyncio.create_task(apply(plane, vcl="three"))
    plane.supervisor.compiling.set()
    assert [outcome.serves for outcome in await asyncio.gather(changing, later)] == [True, True]
    assert plane.served.up_to_date
    assert plane.supervisor.serves == ("three", "a")


async def test_a_stop_in_the_middle_of_a_pass_cancels_who_waits(plane):
    plane.supervisor.compiling.clear()
    changing = asyncio.create_task(apply(plane, vcl="one", routing=routes("a")))
    await asyncio.sleep(0.01)
    await plane._end_passes()
    with pytest.raises(asyncio.CancelledError):
        await changing


@pytest.mark.parametrize("together", [True, False])
async def test_a_configuration_is_tried_again_with_another_vcl(plane, together):
    await apply(plane, vcl="deaf", routing=routes("a"))
    change = {"routing": routes("b")}
    if not together:
        assert not (await apply(plane, **change)).serves
        change = {}
    assert (await apply(plane, vcl="two", **change)).serves
    assert plane.supervisor.serves == ("two", "b")
    assert plane.in_force.bundle.id == plane._wanted.bundle().id


@pytest.fixture
def soon_forgiven(monkeypatch):
    monkeypatch.setattr(quarantine, "FIRST_SECONDS", 0.02)
    monkeypatch.setattr(quarantine, "COSTLY_FIRST_SECONDS", 0.02)


def told(plane, *kinds):
    return [record.event for record in plane.bus.history if isinstance(record.event, kinds)]


@pytest.mark.usefixtures("soon_forgiven")
@pytest.mark.parametrize("before", [{}, {"vcl": "one", "routing": routes("a")}])
async def test_a_vcl_that_was_refused_is_tried_again_by_itself(plane, before):
    if before:
        await apply(plane, **before)
    plane.supervisor.refused = "two"  # for the moment
    assert not (await apply(plane, vcl="two", routing=routes("a"))).serves
    plane.supervisor.refused = "nonsense"
    await until_it_serves(plane, "two", "a")
    assert (await apply(plane)).serves


@pytest.mark.usefixtures("soon_forgiven")
async def test_routes_that_were_refused_are_tried_again_by_themselves(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.unsound = "b"
    assert not (await apply(plane, routing=routes("b"))).serves
    plane.supervisor.unsound = "unsound"
    await until_it_serves(plane, "one", "b")


@pytest.mark.usefixtures("soon_forgiven")
async def test_routes_that_killed_workers_are_tried_again_by_themselves(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.deadly = "b"
    await apply(plane, routing=routes("b"))
    async with asyncio.timeout(5):
        while not told(plane, events.ReloadFailed):
            await asyncio.sleep(0.01)
    plane.supervisor.deadly = ""
    await until_it_serves(plane, "one", "b")


@pytest.mark.usefixtures("soon_forgiven")
async def test_what_is_refused_again_and_again_is_told_once(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    before = len(told(plane, events.Event))
    assert not (await apply(plane, vcl="nonsense", routing=routes("unsound"))).serves
    served = plane.served
    for _ in range(4):
        plane.supervisor.loaded.clear()
        await asyncio.wait_for(plane.supervisor.loaded.wait(), 5)
        assert plane.served == served
    assert [type(event) for event in told(plane, events.Event)[before:]] == [
        events.ReloadFailed,
        events.VclFailed,
        events.Ready,
    ]


async def test_a_varnishd_whose_launch_was_followed_by_a_fault_gets_its_vcl(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.lose_varnishd()
    plane.supervisor.ensure_faults = [BlockingIOError("no more processes")]
    await apply(plane)
    await until_it_serves(plane, "one", "a")
    assert len(plane.supervisor._vcls) == 1


async def test_after_a_lost_answer_going_back_makes_ghost_read_what_was_good(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.deadly = "b"
    plane.supervisor.lose_worker = lambda: None
    assert not (await apply(plane, routing=routes("b"))).serves
    assert (await apply(plane, routing=routes("a"))).serves
    assert plane.supervisor.reloads[-1] == "a"


async def test_after_a_lost_answer_what_is_refused_makes_ghost_read_what_was_good(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.deadly = "b"
    plane.supervisor.lose_worker = lambda: None
    assert not (await apply(plane, routing=routes("b"))).serves
    await apply(plane, routing=routes("unsound"))
    assert plane.supervisor.reloads[-2:] == ["unsound", "a"]


async def test_what_got_well_by_itself_is_kept(plane):
    kept = []
    plane.keep_with(kept.append)
    await apply(plane, vcl="one", routing=routes("a"))
    assert kept[-1].vcl == "one"
    plane.supervisor.lose_worker()
    plane.supervisor.faults = [no_memory(), no_memory()]
    assert not (await apply(plane, vcl="two", routing=routes("b"))).serves
    await until_it_serves(plane, "two", "b")
    async with asyncio.timeout(5):
        while kept[-1].vcl != "two":
            await asyncio.sleep(0.01)
    assert kept[-1] == plane.in_force
