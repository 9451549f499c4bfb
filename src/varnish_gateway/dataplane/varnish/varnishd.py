"""One varnishd process: its arguments, its output, its end.

In:   Settings, a Layout, an Admin that listens, a callback.
Out:  a manager process that has connected to the Admin and holds no VCL yet. Every line that it
writes goes to the log; a line about its worker's death is also reported.
``stop`` leaves no process behind, and neither does our own death.
"""

import asyncio
import logging
import os
import re
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from varnish_gateway import errors
from varnish_gateway.dataplane.process.child import LINE_LIMIT, Child, killed, lifeline_to, stop_leftover
from varnish_gateway.dataplane.process.lifeline import Lifeline
from varnish_gateway.dataplane.process.ports import first_in_use
from varnish_gateway.dataplane.process.sockets import Socket
from varnish_gateway.dataplane.process.workdir import Layout
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.varnish.cli import Admin
from varnish_gateway.dataplane.varnish.parameters import missing_limit, parameters
from varnish_gateway.ir.stores import names_a_store, sizes

log = logging.getLogger(__name__)

_CHILD_GONE = re.compile(r"Child \(\d+\) (?:died (.*)|(ended)$)")
_CHILD_COMPLAINT = re.compile(r"Child \(\d+\) said Error: (.*)")
_LEVELS = {"Error": logging.ERROR, "Warning": logging.WARNING, "Info": logging.INFO, "Debug": logging.DEBUG}


class Command(NamedTuple):
    """The part of varnishd's command line that only a restart changes."""

    sockets: tuple[Socket, ...]
    extra_args: tuple[str, ...] = ()

    def covers(self, desired: "Command") -> bool:
        """Whether a varnishd with this command also serves the desired one: an unused Unix socket does no harm.

        So varnishd does not restart when the last usable certificate of a port goes.
        """
        unused = set(self.sockets) - set(desired.sockets)
        kept = tuple(socket for socket in self.sockets if socket not in unused)
        return desired == Command(kept, self.extra_args) and all(socket.is_unix for socket in unused)


def arguments(settings: Settings, layout: Layout, command: Command, admin_port: int, own: Sequence[str]) -> list[str]:
    """Return varnishd's command line. The user's arguments follow our own, and so win; a store replaces ours."""
    argv = ["varnishd", "-F", "-f", "", "-M", f"127.0.0.1:{admin_port}", "-S", str(layout.secret_path)]
    argv += ["-n", str(layout.varnish_dir)]
    for socket in command.sockets:
        argv += ["-a", socket.argument]
    for storage in () if names_a_store(command.extra_args) else settings.storage:
        argv += ["-s", storage]
    return [*argv, *own, *command.extra_args]


async def rejection(extra_args: Sequence[str]) -> errors.ChildExited | None:
    """Return why varnishd rejects arguments, without touching the running varnishd.

    Raise ChildExited if the check was killed.
    """
    if (problem := await missing_limit(extra_args)) is not None:
        return problem
    process = await asyncio.create_subprocess_exec(
        *("varnishd", "-C", "-b", "none", *parameters(), *extra_args), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
    )
    _, output = await process.communicate()
    if process.returncode == 0:
        return None
    if (how := killed(process)) is not None:
        raise errors.ChildExited(f"varnishd -C, which checks the extra arguments, {how}")
    words = " ".join(output.decode(errors="replace").split())
    return errors.ChildExited(f"varnishd rejects its extra arguments: {words.removeprefix('Error: ')}")


class Varnishd(Child):
    """A running manager. ``child_gone`` is called with the reason that its output, and the worker's, gives."""

    name = "varnishd"

    def __init__(self, process: Process, lifeline: Lifeline, child_gone: Callable[[str], None]) -> None:
        self._on_child_gone = child_gone
        self._level = logging.INFO
        self._complaint = ""  # the worker's
        super().__init__(process, lifeline)

    def _on_line(self, line: str) -> None:
        word, _, rest = line.partition(":")
        if word in _LEVELS:
            self._level = _LEVELS[word]
            self._last_error = [] if word == "Error" else self._last_error
        # A line without a level continues the previous one.
        if self._level == logging.ERROR and (text := rest.strip() if word == "Error" else line):
            self._last_error.append(text)
        # varnishd calls the SIGTERM that we send an error, and misses files of a VCL that did not compile.
        level = logging.DEBUG if self.is_stopping or line.startswith("Could not delete 'vcl_") else self._level
        log.log(level, "%s", line, extra={"component": "varnishd", "pid": self.pid})
        if complaint := _CHILD_COMPLAINT.search(line):
            self._complaint = f": {complaint[1]}"
        if gone := _CHILD_GONE.search(line):
            self._on_child_gone((gone[1] or gone[2]) + self._complaint)
            self._complaint = ""


async def launch(
    argv: Sequence[str],
    sockets: Iterable[Socket],
    layout: Layout,
    admin: Admin,
    child_gone: Callable[[str], None],
) -> Varnishd:
    """Start varnishd and return when it has connected to the admin.

    Raise ChildExited if it exits before, or without a start if another process has one of its ports.
    """
    await stop_leftover("varnishd", layout.varnish_dir / "_.pid", str(layout.varnish_dir))
    if (taken := first_in_use(sockets)) is not None:
        raise taken
    admin.forget()
    env = {
        **os.environ,
        "GHOST_CONFIG_PATH": str(layout.ghost_config_path),
        "GHOST_CDN_ID": layout.cdn_id,
        "GHOST_STORES": sizes(argv),
        "TMPDIR": str(layout.temporary_dir),
    }
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, env=env, limit=LINE_LIMIT, start_new_session=True
        )
    except FileNotFoundError:
        raise errors.ChildExited("varnishd is not installed or not on PATH") from None
    varnishd = Varnishd(process, await lifeline_to(process), child_gone)
    try:
        await _connected(varnishd, admin)
    except BaseException:
        await varnishd.stop()
        raise
    return varnishd


async def _connected(varnishd: Varnishd, admin: Admin) -> None:
    """Return when varnishd has connected; raise ChildExited if it exits instead."""
    exited = asyncio.ensure_future(varnishd.exited())
    connected = asyncio.ensure_future(admin.connected())
    try:
        await asyncio.wait({exited, connected}, return_when=asyncio.FIRST_COMPLETED)
        if exited.done():
            raise errors.ChildExited(exited.result())
        connected.result()
    finally:
        exited.cancel()
        connected.cancel()
