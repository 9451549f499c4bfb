"""What the outside may ask ``vgw run``, on --health-addr.

/health   200 while the process lives
/ready    200 while every Gateway serves, 503 otherwise; the answer names what each one serves, and the problems
          that keep the newest files from serving as a whole
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
from aiohttp import web

from varnish_gateway.api import Key
from varnish_gateway.runtime.webserver import WebServer, alive, json_page
from varnish_gateway.standalone.plane import Plane

SHOWN = 20
"""More problems than this are counted, not listed."""


class Serving(Protocol):
    """Engine, or what a test has in its place."""

    @property
    def planes(self) -> Mapping[Key, Plane]: ...

    @property
    def problems(self) -> Sequence[str]: ...


def health_server(serving: Serving) -> WebServer:
    async def ready(_: web.Request) -> web.Response:
        planes = serving.planes
        served = {f"{key.namespace}/{key.name}": plane.served for key, plane in planes.items()}
        is_ready = bool(served) and all(plane.is_ready for plane in planes.values())
        page = {"ready": is_ready, "gateways": served, "problems": _shown(serving.problems)}
        return json_page(msgspec.json.encode(page), is_ready=is_ready)

    return WebServer({"GET /health": alive, "GET /ready": ready}, "--health-addr")


def _shown(problems: Sequence[str]) -> list[str]:
    more = len(problems) - SHOWN
    return [*problems[:SHOWN], *([f"and {more} more"] if more > 0 else [])]
