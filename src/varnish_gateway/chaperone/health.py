"""The pages that a chaperone serves on HEALTH_ADDR.

/health   200 while the process lives
/ready    200 while traffic is served, 503 before, without a worker and while draining;
          the answer names what serves: configuration, VCL, TLS, generation, sockets, problems,
          and since when the API server has not answered
/metrics  Prometheus' text format, with ghost's counters per route
/invalidate  POST: invalidates objects of the cache, for clients with a token and the operator
/inspect  POST: tells the same clients what the cache holds for a URL
/drain    starts draining: /ready answers 503 from then on, traffic still flows; only from within the pod
"""

from ipaddress import ip_address

import msgspec
from aiohttp import web

from varnish_gateway.chaperone.feeds.source import Source, with_source
from varnish_gateway.dataplane.change import ServingState
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.ghost.metrics import CachedRoutes
from varnish_gateway.dataplane.invalidation.inspect_page import InspectPage
from varnish_gateway.dataplane.invalidation.page import InvalidatePage
from varnish_gateway.dataplane.invalidation.pod_tokens import PodTokens
from varnish_gateway.dataplane.invalidation.token_file import TokenFile
from varnish_gateway.dataplane.metrics import EventCounters
from varnish_gateway.dataplane.scrape import scrape
from varnish_gateway.runtime.webserver import WebServer, alive, json_page, text_page


def health_server(data_plane: DataPlane, source: Source | None = None) -> WebServer:
    handlers = _Pages(data_plane, source)
    of_clients = TokenFile(data_plane.settings.invalidation_tokens, "INVALIDATION_TOKENS_FILE")
    tokens = PodTokens(of_clients, lambda: "" if source is None else source.operator_token)
    pages = {
        "GET /health": alive,
        "GET /ready": handlers.ready,
        "GET /metrics": handlers.metrics,
        "POST /invalidate": InvalidatePage(lambda: {"": data_plane}, tokens).answer,
        "POST /inspect": InspectPage(lambda: {"": data_plane}, tokens).answer,
        "* /drain": handlers.drain,
    }
    return WebServer(pages, "HEALTH_ADDR")


class _Pages:
    def __init__(self, data_plane: DataPlane, source: Source | None) -> None:
        self._data_plane = data_plane
        self._source = source
        self._counters = EventCounters()
        self._routes = CachedRoutes(data_plane.settings.cached_routes)
        data_plane.bus.subscribe(self._counters)

    async def ready(self, _: web.Request) -> web.Response:
        served = self._served()
        return json_page(msgspec.json.encode(served), is_ready=served.ready)

    async def metrics(self, _: web.Request) -> web.Response:
        lines = await scrape(self._data_plane, self._counters, self._routes, self._served())
        lines += () if self._source is None else self._source.metrics()
        return text_page(lines)

    async def drain(self, request: web.Request) -> web.Response:
        if not _is_from_here(request):  # a client that reaches the pod must not take it out of service
            return web.Response(status=403, text="only from within the pod\n")
        self._data_plane.start_draining()
        return await self.ready(request)

    def _served(self) -> ServingState:
        served = self._data_plane.served
        return served if self._source is None else with_source(served, self._source.state)


def _is_from_here(request: web.Request) -> bool:
    if request.remote is None:
        return False
    address = ip_address(request.remote)
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
