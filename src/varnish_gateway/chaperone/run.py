"""``vgw chaperone``: one data plane from plain files, until SIGTERM or SIGINT.

In:   Settings.
Out:  the exit status: 0 after a stop that was asked for, 1 if varnishd could not be started.
"""

import asyncio
import contextlib
import logging
import signal

import msgspec

from varnish_gateway import errors
from varnish_gateway.chaperone.dataplane import DataPlane
from varnish_gateway.chaperone.health import HealthServer
from varnish_gateway.chaperone.plainfiles import PlainFiles
from varnish_gateway.chaperone.settings import Settings
from varnish_gateway.chaperone.watch import bursts

log = logging.getLogger(__name__)


async def run_chaperone(settings: Settings) -> int:
    """Serve until told to stop, then drain."""
    files = PlainFiles(settings)
    if files.by_hand:
        # What somebody wrote is only read; what ghost reads is a copy, so that the last good one stays.
        in_force = settings.work_dir / "in-force" / "ghost.json"
        data_plane = DataPlane(msgspec.structs.replace(settings, ghost_config_path=in_force))
    else:
        data_plane = DataPlane(settings)
    health = HealthServer(data_plane)
    stop = _stop_signal()
    try:
        await data_plane.start()
        if settings.health is not None:
            await health.start(settings.health)
    except (errors.GatewayError, OSError) as error:
        log.error("%s", error)  # noqa: TRY400 - the sentence says it all
        await data_plane.stop(0)
        return 1
    following = asyncio.create_task(_follow(files, data_plane))
    await asyncio.wait({following, stop}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if following.done():
            following.result()  # a bug of ours: raise it
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
    finally:
        await data_plane.stop()
        await health.stop()
    return 0


async def _follow(files: PlainFiles, data_plane: DataPlane) -> None:
    async for _ in bursts(lambda: files.paths):
        await data_plane.apply(files.read())


def _stop_signal() -> asyncio.Future[None]:
    """Return a future that the first SIGTERM or SIGINT fulfils."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def told() -> None:
        if not stop.done():
            stop.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told)
    return stop
