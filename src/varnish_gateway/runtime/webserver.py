"""A small HTTP server for health checks and metrics.

In:   pages by method and path, such as "GET /ready", which also answers HEAD; "*" for any method.
Out:  responses, from ``start`` until ``stop``.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping

from aiohttp import web

from varnish_gateway import errors
from varnish_gateway.runtime.environment import Address

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
        self._runner = web.AppRunner(app, access_log=None)
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


async def alive(_: web.Request) -> web.Response:
    """Answer a liveness check."""
    return web.Response(text="ok\n")


def json_page(body: bytes, *, is_ready: bool) -> web.Response:
    """Return a JSON document, with status 503 if not ready."""
    return web.Response(status=200 if is_ready else 503, body=body, content_type="application/json")


def text_page(lines: Iterable[str]) -> web.Response:
    """Return lines of text, such as metrics."""
    return web.Response(text="".join(f"{line}\n" for line in lines), content_type="text/plain")
