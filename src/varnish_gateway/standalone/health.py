"""What the outside may ask ``vgw run``, on --health-addr.

/health   200 while the process lives
/ready    200 while every Gateway serves, 503 otherwise; the answer names what each one serves
"""

from collections.abc import Mapping

import msgspec
from aiohttp import web

from varnish_gateway.api import Key
from varnish_gateway.runtime.webserver import WebServer, alive, json_page
from varnish_gateway.standalone.plane import Plane


def health_server(planes: Mapping[Key, Plane]) -> WebServer:
    async def ready(_: web.Request) -> web.Response:
        served = {f"{key.namespace}/{key.name}": plane.served for key, plane in planes.items()}
        is_ready = bool(served) and all(plane.is_ready for plane in planes.values())
        return json_page(msgspec.json.encode({"ready": is_ready, "gateways": served}), is_ready=is_ready)

    return WebServer({"GET /health": alive, "GET /ready": ready}, "--health-addr")
