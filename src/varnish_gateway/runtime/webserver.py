"""A small HTTP server: what the outside may ask one of our processes.

In:   pages by method and path, as in "GET /ready", which answers HEAD as well; "*" for any method.
Out:  answers, from ``start`` until ``stop``.
"""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from varnish_gateway import errors
from varnish_gateway.runtime.environment import Address

Page = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WebServer:
    """``setting`` is where a person says the address."""

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
        """Listen; ``port`` is the real one when 0 was asked for. Raise BadSettings if that can't be."""
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
    """Answer what only says that the process lives."""
    return web.Response(text="ok\n")


def json_page(body: bytes, *, is_ready: bool) -> web.Response:
    """Return a JSON document; 503 says that it is not ready."""
    return web.Response(status=200 if is_ready else 503, body=body, content_type="application/json")
