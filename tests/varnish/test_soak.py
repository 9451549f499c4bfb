"""Edits and crashes under constant load, against a real gateway.

``make test`` makes a short run of the edits, ``make soak`` the whole one of 1,000.
"""

import asyncio
import contextlib
import itertools
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loopback import free_port
from support import manifests
from support.directories import replace
from support.http.client import Connection
from support.http.load import Answerer, Load, under_load
from support.http.origins import Origins
from support.manifests import USER_VCL_CLASS, service, user_vcl
from support.processes import children, kilobytes, program
from support.vgw_process import VgwProcess, vgw_run

SHORT, WHOLE = 60, 1000
ROUTES = 20


def route(name: str, **weights: int) -> str:
    return manifests.route(name, "soak", f"{name}.example.com", **weights)


def vcl(edit: int) -> str:
    return user_vcl(f'sub vcl_deliver {{ set resp.http.X-Edit = "{edit}"; }}')


class Files:
    """The files of the gateway; a write replaces a file by rename, as editors do."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "files"
        self.directory.mkdir()

    def write(self, name: str, text: str) -> None:
        replace(self.directory / f"{name}.yaml", text)

    def remove(self, name: str) -> None:
        (self.directory / f"{name}.yaml").unlink()


class Editor:
    """Makes one edit after another; each is done when traffic shows it."""

    def __init__(self, files: Files, load: Load, ports: dict[str, int]) -> None:
        self.files, self.load, self.ports = files, load, ports
        self._connection = Connection(load.port)
        self._turn = itertools.count(1)

    async def edit(self) -> None:
        turn = next(self._turn)
        if turn % 10 == 0:
            await self._edit_vcl(turn)
        elif turn % 5 == 1:
            await self._edit_weights(turn)
        elif turn % 5 == 2:
            await self._edit_endpoints(turn)
        elif turn % 5 == 3:
            await self._come_or_go(turn)
        else:
            await self._edit_route(turn)

    async def _edit_route(self, turn: int) -> None:
        name, new = f"r{turn % ROUTES}", ("blue", "green", "red")[turn // ROUTES % 3]
        await self.change(name, {new}, lambda: self.files.write(name, route(name, **{new: 1})))

    async def _edit_weights(self, turn: int) -> None:
        blue, green = ((1, 0), (0, 1), (1, 1))[turn // 5 % 3]
        new = {name for name, weight in (("blue", blue), ("green", green)) if weight}
        await self.change("split", new, lambda: self.files.write("split", route("split", blue=blue, green=green)))

    async def _edit_endpoints(self, turn: int) -> None:
        new = ({"p1"}, {"p2", "p3"})[turn // 5 % 2]
        text = service("pool", *(self.ports[name] for name in sorted(new)))
        await self.change("pool", new, lambda: self.files.write("service-pool", text))

    async def _come_or_go(self, turn: int) -> None:
        if turn // 5 % 2 == 0:
            await self.change("guest", {"blue"}, lambda: self.files.write("guest", route("guest", blue=1)))
        else:
            await self.change("guest", {404}, lambda: self.files.remove("guest"))

    async def _edit_vcl(self, turn: int) -> None:
        self.files.write("vcl", vcl(turn))
        async with asyncio.timeout(20):
            while (await self._connection.ask("r0.example.com")).header("x-edit") != str(turn):
                pass

    async def change(self, name: str, new: set[Answerer], write) -> None:
        host = f"{name}.example.com"
        old = self.load.allowed[host]
        self.load.allow(host, *old, *new)
        write()
        if fresh := new - old:
            async with asyncio.timeout(20):
                while (await self._connection.ask(host)).answered_by not in fresh:
                    pass
            self.load.allow(host, *new)

    async def close(self) -> None:
        await self._connection.close()


def varnishd(gateway: VgwProcess) -> tuple[int, int]:
    """Return the process ids of varnishd's manager and of its child."""
    for pid in children(gateway.process.pid):
        if program(pid) == "varnishd":
            return pid, children(pid)[0]
    raise AssertionError("there is no varnishd")


def megabytes(pid: int) -> int:
    """Return what a process holds for itself; varnishd's log and counters are mapped files."""
    return kilobytes(pid, "RssAnon") // 1024


def loaded_vcls(work_dir: Path) -> int:
    """Count directories of VCLs; varnishd removes some meanwhile, so none of them is entered."""
    return sum(1 for path in work_dir.glob("*/varnishd/vcl_*") if path.is_dir())


@contextlib.asynccontextmanager
async def soaked(tmp_path: Path) -> AsyncIterator[tuple[VgwProcess, Load, Editor]]:
    """Yield a gateway with all kinds of routes under load."""
    origins = Origins()
    names = ("blue", "green", "red", "p1", "p2", "p3")
    ports = {name: await origins.port(name) for name in names}
    files, port = Files(tmp_path), free_port()
    files.write("class", USER_VCL_CLASS)
    files.write("gateway", manifests.gateway("soak", port))
    files.write("vcl", vcl(0))
    for name in ("blue", "green", "red"):
        files.write(f"service-{name}", service(name, ports[name]))
    files.write("service-pool", service("pool", ports["p2"], ports["p3"]))
    files.write("pool", route("pool", pool=1))
    files.write("split", route("split", blue=1, green=1))
    for number in range(ROUTES):
        files.write(f"r{number}", route(f"r{number}", red=1))
    allowed = {f"r{number}.example.com": frozenset({"red"}) for number in range(ROUTES)}
    allowed |= {
        "pool.example.com": frozenset({"p2", "p3"}),
        "split.example.com": frozenset({"blue", "green"}),
        "guest.example.com": frozenset({404}),
    }
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(origins.close)
        gateway = await stack.enter_async_context(
            vgw_run(files.directory, options=("--work-dir", str(tmp_path / "work")))
        )
        await gateway.wait_for_programmed()
        load = await stack.enter_async_context(under_load(port, allowed))
        editor = Editor(files, load, ports)
        stack.push_async_callback(editor.close)
        yield gateway, load, editor


async def _soak(workdir: Path, edits: int) -> None:
    async with soaked(workdir) as (gateway, load, editor):
        warm = max(20, edits // 5)
        for _ in range(warm):
            await editor.edit()
        manager, child = varnishd(gateway)
        before = {pid: megabytes(pid) for pid in (gateway.process.pid, child)}
        for _ in range(edits - warm):
            await editor.edit()
        assert load.wrong == []
        assert load.failed == []
        assert load.answered > edits
        assert varnishd(gateway) == (manager, child), "nothing restarted"
        assert loaded_vcls(workdir / "work") <= 12
        for pid, held in before.items():
            assert megabytes(pid) <= held * 1.1 + 8, "memory grew"
    print(f"{edits} edits, {load.answered} requests")


@pytest.mark.timeout(300)
async def test_edits_under_load_lose_and_misroute_no_request(workdir):
    await _soak(workdir, SHORT)


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_thousand_edits_under_load_lose_and_misroute_no_request(workdir):
    await _soak(workdir, WHOLE)


def _replaced(gateway: VgwProcess, before: tuple[int, int]) -> bool:
    """Tell whether other processes run; a worker outlives its killed manager for a moment."""
    with contextlib.suppress(OSError, AssertionError, IndexError):
        return varnishd(gateway) != before
    return False


async def _serves(connection: Connection) -> bool:
    with contextlib.suppress(OSError, EOFError):
        return (await connection.ask("r0.example.com")).answered_by == "red"
    return False


async def _crash(workdir: Path, *, kill_manager: bool, within: float) -> None:
    async with soaked(workdir) as (gateway, load, editor):
        await editor.edit()
        connection = Connection(load.port)
        manager, child = varnishd(gateway)
        killed = time.monotonic()
        os.kill(manager if kill_manager else child, signal.SIGKILL)
        async with asyncio.timeout(20):
            while not (_replaced(gateway, (manager, child)) and await _serves(connection)):
                await connection.close()
                await asyncio.sleep(0.002)  # the end of a process can only be looked for
        back = time.monotonic()
        answered = load.answered
        for _ in range(12):
            await editor.edit()
        await connection.close()
        assert back - killed < within
        # What was in flight when it died began before; all else that failed began in the gap.
        assert [why for began, why in load.failed if began > back + 0.1] == []
        assert load.wrong == []
        assert load.answered > answered


async def test_killed_child_process_serves_again_without_help(workdir):
    await _crash(workdir, kill_manager=False, within=2)


async def test_killed_varnishd_is_restarted(workdir):
    await _crash(workdir, kill_manager=True, within=10)


async def test_endpoint_refusing_connections_fails_no_request(workdir):
    async with soaked(workdir) as (_, load, editor):
        text = service("pool", editor.ports["p1"], free_port(), free_port())
        await editor.change("pool", {"p1"}, lambda: editor.files.write("service-pool", text))
        connection = Connection(load.port)
        answers = {(await connection.ask("pool.example.com")).answered_by for _ in range(500)}
        await connection.close()
        assert answers == {"p1"}
        assert load.wrong == []
        assert load.failed == []
