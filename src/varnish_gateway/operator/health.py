"""What the outside may ask the operator.

HEALTH_ADDR    /healthz  200 while the process lives
               /readyz   200 once everything was read, and as long as it can be watched; 503 and why otherwise
METRICS_ADDR   /metrics  Prometheus' text format
"""

from collections.abc import Awaitable, Callable

from aiohttp import web

from varnish_gateway import errors
from varnish_gateway.environment import Address


class Server:
    """One address with plain-text pages; ``port`` is the real one when 0 was asked for."""

    def __init__(self, pages: dict[str, Callable[[], tuple[int, str]]]) -> None:
        self._pages = pages
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, address: Address) -> None:
        app = web.Application()
        for path, page in self._pages.items():
            app.router.add_get(path, _handler(page))
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, address.host or None, address.port).start()
        except OSError as error:
            where = f"{address.host}:{address.port}"
            raise errors.BadSettings(
                f"can't listen at {where}: {error.strerror}; set METRICS_ADDR or HEALTH_ADDR"
            ) from error
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()


def _handler(page: Callable[[], tuple[int, str]]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        status, text = page()
        return web.Response(status=status, text=text)

    return answer
