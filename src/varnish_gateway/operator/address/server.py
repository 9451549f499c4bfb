"""Listen for invalidations, at a bounded rate.

In:   the page, and an address.
Out:  connections, each of which may send one request.

The server shares its process with reconciling, so the work that clients can cause is bounded where it begins: so many
connections are accepted in a second, whatever they bring. One that does not send the head of a request soon is
closed, the oldest one first if there are many.
"""

import asyncio
import contextlib
import logging
import socket
import time
from typing import NoReturn

from aiohttp import web
from aiohttp.typedefs import Handler

from varnish_gateway import errors
from varnish_gateway.kube.limits import Bucket
from varnish_gateway.runtime.environment import Address
from varnish_gateway.runtime.webserver import Page, runner

SETTING = "INVALIDATION_ADDR"
PER_SECOND = 200
BURST = 100
"""Connections that are accepted without a wait after a quiet moment."""
HEAD_SECONDS = 5.0
MOST_SILENT = 256
"""Connections without the head of a request."""
LINGER_SECONDS = 1.0
"""How long the rest of a body that nothing reads may take, so that its client gets to see the response."""
BACKLOG = 128
PAUSE_SECONDS = 0.5
"""After a failure to accept, such as too many open files."""

log = logging.getLogger(__name__)


class InvalidationServer:
    """``port`` is the actual one if the address has port 0."""

    def __init__(self, path: str, page: Page) -> None:
        app = web.Application(middlewares=[self._one_request])
        app.router.add_post(path, page)
        self._runner = runner(app, linger=LINGER_SECONDS, shutdown=LINGER_SECONDS)
        self._silent: dict[web.RequestHandler, asyncio.TimerHandle] = {}  # the oldest first
        self._listening: socket.socket | None = None
        self.port = 0

    async def start(self, address: Address) -> None:
        """Listen; raise BadSettings if that is not possible."""
        await self._runner.setup()
        try:
            self._listening = _socket(address)
        except OSError as error:
            where = f"{address.host}:{address.port}"
            raise errors.BadSettings(f"{SETTING}: can't listen at {where}: {error.strerror}") from error
        self.port = self._listening.getsockname()[1]

    async def stop(self) -> None:
        if self._listening is not None:
            self._listening.close()
        for timer in self._silent.values():
            timer.cancel()
        await self._runner.cleanup()

    async def run(self) -> NoReturn:
        """Accept connections until cancelled; until it runs, they wait."""
        loop, bucket = asyncio.get_running_loop(), Bucket(PER_SECOND, BURST)
        if self._listening is None:
            raise RuntimeError("a server has to be started before it runs")
        while True:
            await asyncio.sleep(bucket.take(time.monotonic()))
            try:
                connection, _ = await loop.sock_accept(self._listening)
            except OSError as error:
                log.warning("%s: a connection can't be accepted: %s", SETTING, error)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            await self._serve(connection)

    async def _serve(self, connection: socket.socket) -> None:
        server, loop = self._runner.server, asyncio.get_running_loop()
        if server is None:
            raise RuntimeError("a server has to be started before it serves")
        while len(self._silent) >= MOST_SILENT:
            self._give_up(next(iter(self._silent)))
        protocol = server()
        self._silent[protocol] = loop.call_later(HEAD_SECONDS, self._give_up, protocol)
        with contextlib.suppress(OSError):  # its client has closed it already
            await loop.connect_accepted_socket(lambda: protocol, connection)

    def _give_up(self, protocol: web.RequestHandler) -> None:
        """Close a connection that has not sent the head of a request; it may be closed already."""
        timer = self._silent.pop(protocol, None)
        if timer is not None:
            timer.cancel()
        if protocol.transport is not None:
            protocol.transport.abort()

    @web.middleware
    async def _one_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Close the connection after its request: the rate of connections is what limits requests."""
        timer = self._silent.pop(request.protocol, None)
        if timer is not None:
            timer.cancel()
        try:
            response = await handler(request)
        except web.HTTPException as other:  # a path or a method that is not served
            other.force_close()
            raise
        response.force_close()
        return response


def _socket(address: Address) -> socket.socket:
    """Return a listening socket; an empty host means all addresses of both families."""
    if address.host:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        listening = socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    elif socket.has_dualstack_ipv6():
        listening = socket.create_server(
            ("", address.port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG
        )
    else:
        listening = socket.create_server(("", address.port), backlog=BACKLOG)
    listening.setblocking(False)
    return listening
