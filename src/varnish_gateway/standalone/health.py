"""What the outside may ask ``vgw run``, on --health-addr.

/health   200 while the process lives
/ready    200 while every Gateway serves, 503 otherwise; the answer names what each one serves
"""

from collections.abc import Mapping

import msgspec
from aiohttp import web

from varnish_gateway.api import Key
from varnish_gateway.environment import Address
from varnish_gateway.standalone.plane import Plane


class HealthServer:
    """Answers from ``start`` until ``stop``."""

    def __init__(self, planes: Mapping[Key, Plane]) -> None:
        self._planes = planes
        self._runner: web.AppRunner | None = None

    async def start(self, address: Address) -> int:
        """Listen; return the port, which is another one when 0 was asked for."""
        app = web.Application()
        app.router.add_get("/health", self._health)
        app.router.add_get("/ready", self._ready)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, address.host or None, address.port).start()
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _ready(self, _: web.Request) -> web.Response:
        served = {f"{key.namespace}/{key.name}": plane.served for key, plane in self._planes.items()}
        is_ready = bool(served) and all(plane.is_ready for plane in self._planes.values())
        body = msgspec.json.encode({"ready": is_ready, "gateways": served})
        return web.Response(status=200 if is_ready else 503, body=body, content_type="application/json")
