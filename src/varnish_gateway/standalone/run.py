"""``vgw run``: serve files until SIGTERM or SIGINT; SIGHUP reads them again.

In:   paths of files, a working directory, and optionally an address for /health and /ready, and tokens for /invalidate.
Out:  the exit status: 0 after a signal. A bug of ours is raised.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

from varnish_gateway import errors
from varnish_gateway.runtime.environment import Address
from varnish_gateway.runtime.signals import on_hangup, on_stop
from varnish_gateway.standalone.engine import Engine
from varnish_gateway.standalone.health import health_server
from varnish_gateway.standalone.plane import DRAIN_SECONDS

log = logging.getLogger(__name__)


async def run_files(paths: list[str], work_dir: Path, health_addr: Address | None, tokens: Path | None = None) -> int:
    """Serve, then drain."""
    if tokens is not None and health_addr is None:
        raise errors.BadSettings("--invalidation-tokens: without --health-addr there is no /invalidate; add it")
    engine = Engine(paths, work_dir, tokens)
    async with _health(engine, health_addr, tokens):
        return await _until_signal(engine)


@contextlib.asynccontextmanager
async def _health(engine: Engine, address: Address | None, tokens: Path | None) -> AsyncIterator[None]:
    """Answer health checks while the body runs, if an address is given."""
    if address is None:
        yield
        return
    server = health_server(engine, tokens)
    try:
        await server.start(address)
        yield
    finally:
        await server.stop()


async def _until_signal(engine: Engine) -> int:
    signalled = asyncio.Event()
    on_stop(signalled.set)
    on_hangup(engine.reread, signalled.set)
    serving = asyncio.create_task(engine.serve())
    waiting = asyncio.create_task(signalled.wait())
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    signalled.clear()
    waiting.cancel()
    serving.cancel()
    try:
        await _close(engine, signalled)
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await serving  # raises the error that stopped it, if there was one
    return 0


async def _close(engine: Engine, second_signal: asyncio.Event) -> None:
    """Drain and stop; a second signal stops without waiting for open connections."""
    log.info("stopping; open connections have %g s to finish", DRAIN_SECONDS)
    draining = asyncio.create_task(engine.drain())
    interrupted = asyncio.create_task(second_signal.wait())
    await asyncio.wait({draining, interrupted}, return_when=asyncio.FIRST_COMPLETED)
    interrupted.cancel()
    draining.cancel()
    await engine.close()
    with contextlib.suppress(asyncio.CancelledError):
        await draining
