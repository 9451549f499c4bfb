"""``vgw chaperone``: one data plane from plain files or from a cluster, until SIGTERM or SIGINT.

In:   Settings, and a Connection to the API server where the configuration comes from a cluster.
Out:  the exit status: 0 after a requested stop, 1 if varnishd could not be started. A bug is raised, so
that Kubernetes or systemd restarts the process.

The chaperone applies changes until the last connection has closed: endpoints may go while it drains.
"""

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any

import msgspec

from varnish_gateway import errors
from varnish_gateway.chaperone.feeds.cluster import ClusterFeed
from varnish_gateway.chaperone.feeds.files import FileFeed
from varnish_gateway.chaperone.health import health_server
from varnish_gateway.dataplane.assemble import assemble
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.process.lock import exclusive
from varnish_gateway.dataplane.process.workdir import make_directory
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.connection import Connection
from varnish_gateway.runtime.inotify import bursts
from varnish_gateway.runtime.signals import on_hangup, stop_signal
from varnish_gateway.runtime.webserver import WebServer
from varnish_gateway.version import VERSION

log = logging.getLogger(__name__)


async def run_chaperone(settings: Settings, connection: Connection | None = None) -> int:
    """Serve until a stop signal, then drain; raise BadSettings if another process uses the work directory."""
    make_directory(settings.work_dir.absolute())
    with exclusive(settings.work_dir.absolute(), "WORK_DIR"):
        return await _run(settings, connection)


async def _run(settings: Settings, connection: Connection | None) -> int:
    stop = stop_signal()
    if connection is None:
        return await _run_on_files(settings, stop)
    on_hangup(lambda: log.info("ignoring SIGHUP: the cluster notifies of every change"), partial(_complete, stop))
    async with Client(connection, user_agent=f"varnish-gateway-chaperone/{VERSION}") as client:
        data_plane = assemble(settings)
        feed = ClusterFeed(settings, client, data_plane)
        return await serve(data_plane, health_server(data_plane, feed), feed.run(), stop)


async def _run_on_files(settings: Settings, stop: asyncio.Future[None]) -> int:
    files = FileFeed(settings)
    if files.by_hand:
        # The user's file is only read. ghost reads a copy, so that the last good one stays.
        in_force = settings.work_dir / "in-force" / "ghost.json"
        settings = msgspec.structs.replace(settings, ghost_config_path=in_force)
    data_plane = assemble(settings)
    on_hangup(files.forget, partial(_complete, stop))
    return await serve(data_plane, health_server(data_plane), _follow(files, data_plane), stop)


async def serve(
    data_plane: DataPlane, health: WebServer, follow: Coroutine[Any, Any, None], stop: asyncio.Future[None]
) -> int:
    """Run the data plane with its feed until ``stop``; return the exit status."""
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
        await _cancel(tasks)
    finally:
        await data_plane.stop(0)
        await health.stop()
    return 0


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel the tasks; raise the bug that ended one before."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    bugs = [task.exception() for task in tasks if not task.cancelled()]
    for bug in bugs:
        if bug is not None:
            raise bug


def _complete(stop: asyncio.Future[None]) -> None:
    if not stop.done():
        stop.set_result(None)


async def _follow(files: FileFeed, data_plane: DataPlane) -> None:
    async for _ in bursts(lambda: files.paths, files.forgotten):
        await data_plane.apply(files.read())
