"""``vgw chaperone``: one data plane from plain files or from a cluster, until SIGTERM or SIGINT.

In:   Settings, and the way to the API server where the configuration comes from a cluster.
Out:  the exit status: 0 after a stop that was asked for, 1 if varnishd could not be started. A bug
of ours is raised: whoever started us starts us again.

Changes are followed until the last connection has ended: endpoints may go while we drain.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import msgspec

from varnish_gateway import errors
from varnish_gateway.chaperone.feeds.cluster import ClusterFeed
from varnish_gateway.chaperone.feeds.files import PlainFiles
from varnish_gateway.chaperone.health import health_server
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.connection import Connection
from varnish_gateway.runtime.inotify import bursts
from varnish_gateway.runtime.signals import stop_signal
from varnish_gateway.runtime.webserver import WebServer
from varnish_gateway.version import VERSION

log = logging.getLogger(__name__)


async def run_chaperone(settings: Settings, connection: Connection | None = None) -> int:
    """Serve until told to stop, then drain."""
    stop = stop_signal()
    if connection is None:
        return await _run_on_files(settings, stop)
    async with Client(connection, user_agent=f"varnish-gateway-chaperone/{VERSION}") as client:
        data_plane = DataPlane(settings)
        feed = ClusterFeed(settings, client, data_plane)
        return await _serve(data_plane, health_server(data_plane, feed), feed.run(), stop)


async def _run_on_files(settings: Settings, stop: asyncio.Future[None]) -> int:
    files = PlainFiles(settings)
    if files.by_hand:
        # What somebody wrote is only read; what ghost reads is a copy, so that the last good one stays.
        in_force = settings.work_dir / "in-force" / "ghost.json"
        settings = msgspec.structs.replace(settings, ghost_config_path=in_force)
    data_plane = DataPlane(settings)
    return await _serve(data_plane, health_server(data_plane), _follow(files, data_plane), stop)


async def _serve(
    data_plane: DataPlane, health: WebServer, follow: Coroutine[Any, Any, None], stop: asyncio.Future[None]
) -> int:
    try:
        await data_plane.start()
        if data_plane.settings.health is not None:
            await health.start(data_plane.settings.health)
    except (errors.GatewayError, OSError) as error:
        log.error("%s", error)  # noqa: TRY400 - the sentence says it all
        follow.close()
        await data_plane.stop(0)
        return 1
    tasks = [asyncio.create_task(data_plane.broken()), asyncio.create_task(follow)]
    try:
        await asyncio.wait({*tasks, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not any(task.done() for task in tasks):
            await data_plane.drain(data_plane.settings.drain_seconds)
        await _end(tasks)
    finally:
        await data_plane.stop(0)
        await health.stop()
    return 0


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel them; raise the bug of ours that ended one before."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    bugs = [task.exception() for task in tasks if not task.cancelled()]
    for bug in bugs:
        if bug is not None:
            raise bug


async def _follow(files: PlainFiles, data_plane: DataPlane) -> None:
    async for _ in bursts(lambda: files.paths):
        await data_plane.apply(files.read())
