"""``vgw run``: serve files."""

import argparse
import asyncio
import contextlib
import logging
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from varnish_gateway import errors
from varnish_gateway.cli import logs
from varnish_gateway.dataplane.process.workdir import check_enterable
from varnish_gateway.runtime.environment import Address
from varnish_gateway.standalone.engine import Engine
from varnish_gateway.standalone.health import health_server
from varnish_gateway.standalone.plane import DRAIN_SECONDS

_DESCRIPTION = """\
Serve Gateway API manifests on this machine: start varnishd for every Gateway in them, and
follow every change of the files. Routes, weights, endpoints and user VCL change without a
request lost; another port of a listener restarts the varnishd of that Gateway.

A document that is wrong is reported and changes nothing: what was served goes on, and the
correction is picked up by itself. Ctrl-C ends; a second Ctrl-C ends at once.
"""

_EXAMPLES = """\
examples:
  vgw run examples/cafe
  vgw run gateway.yaml routes.d --log-format json
"""

log = logging.getLogger(__name__)


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "run",
        help="serve files, and follow their changes",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("paths", nargs="+", metavar="PATH", help="manifest, or directory with manifests")
    command.add_argument(
        "--work-dir", type=Path, metavar="DIR", help="where varnishd works (default: a new temporary directory)"
    )
    command.add_argument(
        "--health-addr", type=_address, metavar="HOST:PORT", help="serve /health and /ready there (default: nowhere)"
    )
    logs.add_options(command)
    command.set_defaults(execute=execute)


def _address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form host:port or :port")
    return Address(host.strip("[]"), int(port))


def execute(arguments: argparse.Namespace) -> int:
    """Serve until a signal ends it."""
    logs.set_up(log_format=arguments.log_format, level=arguments.log_level)
    with _work_dir(arguments.work_dir) as work_dir:
        return asyncio.run(_serve(arguments.paths, work_dir, arguments.health_addr))


@contextlib.contextmanager
def _work_dir(given: Path | None) -> Iterator[Path]:
    """Yield a directory that varnishd's own users may enter too."""
    if given is not None:
        directory = given.absolute()
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise errors.BadSettings(f"--work-dir: {directory} can't be made: {error.strerror}") from None
        check_enterable(directory, "--work-dir")
        yield directory
        return
    directory = Path(tempfile.mkdtemp(prefix="vgw-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def _serve(paths: list[str], work_dir: Path, health_addr: Address | None) -> int:
    engine = Engine(paths, work_dir)
    async with _health(engine, health_addr):
        return await _until_signal(engine)


@contextlib.asynccontextmanager
async def _health(engine: Engine, address: Address | None) -> AsyncIterator[None]:
    """Answer questions about health while the body runs, if an address is given."""
    if address is None:
        yield
        return
    server = health_server(engine.planes)
    try:
        await server.start(address)
        yield
    finally:
        await server.stop()


async def _until_signal(engine: Engine) -> int:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    serving = asyncio.create_task(engine.serve())
    waiting = asyncio.create_task(ended.wait())
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    ended.clear()
    waiting.cancel()
    serving.cancel()
    try:
        await _close(engine, ended)
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await serving  # raises what ended it, if that was a fault
    return 0


async def _close(engine: Engine, again: asyncio.Event) -> None:
    """Drain and stop; a second signal stops without waiting for connections to end."""
    log.info("stopping; connections have %g s to end", DRAIN_SECONDS)
    draining = asyncio.create_task(engine.drain())
    impatient = asyncio.create_task(again.wait())
    await asyncio.wait({draining, impatient}, return_when=asyncio.FIRST_COMPLETED)
    impatient.cancel()
    draining.cancel()
    await engine.close()
    with contextlib.suppress(asyncio.CancelledError):
        await draining
