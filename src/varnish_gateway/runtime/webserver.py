"""A small HTTP server for health checks and metrics.

In:   pages by method and path, such as "GET /ready", which also answers HEAD; "*" for any method.
Out:  responses, from ``start`` until ``stop``.

What a client sends is not logged, however malformed it is: it may hold a token, and there may be much of it.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from aiohttp import web
from aiohttp.http import HttpProcessingError

from varnish_gateway import errors
from varnish_gateway.runtime.environment import Address

log = logging.getLogger(__name__)

Page = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WebServer:
    """``setting`` names the option or variable that holds the address, for errors."""

    def __init__(self, pages: Mapping[str, Page], setting: str) -> None:
        self._setting = setting
        app = web.Application()
        for where, page in pages.items():
            method, path = where.split()
            app.router.add_route(method, path, page)
            if method == "GET":
                app.router.add_route("HEAD", path, page)
        self._runner = runner(app)
        self.port = 0

    async def start(self, address: Address) -> None:
        """Listen; ``port`` is the actual one if the address has port 0. Raise BadSettings if it can't listen."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, address.host or None, address.port).start()
        except OSError as error:
            where = f"{address.host}:{address.port}"
            raise errors.BadSettings(f"{self._setting}: can't listen at {where}: {error.strerror}") from error
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        await self._runner.cleanup()


def runner(app: web.Application, *, linger: float = 10.0, shutdown: float = 60.0) -> web.AppRunner:
    """Return a runner that logs bugs of pages, and nothing that a client sends.

    ``linger``: how long the rest of a body may take that nothing reads. ``shutdown``: how long requests may at the end.
    """
    return web.AppRunner(app, access_log=None, logger=log, lingering_time=linger, shutdown_timeout=shutdown)


def _is_no_malformed_request(record: logging.LogRecord) -> bool:
    """Whether aiohttp reports something else than a request that it can't parse, which it would quote."""
    return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)


log.addFilter(_is_no_malformed_request)


async def alive(_: web.Request) -> web.Response:
    """Answer a liveness check."""
    return web.Response(text="ok\n")


def json_page(body: bytes, *, is_ready: bool) -> web.Response:
    """Return a JSON document, with status 503 if not ready."""
    return web.Response(status=200 if is_ready else 503, body=body, content_type="application/json")


def text_page(lines: Iterable[str]) -> web.Response:
    """Return lines of text, such as metrics."""
    return web.Response(text="".join(f"{line}\n" for line in lines), content_type="text/plain")
