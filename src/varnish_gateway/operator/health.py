"""The operator's HTTP endpoints.

HEALTH_ADDR    /healthz  200 while the process runs
               /readyz   200 once everything was read, while it can be watched; otherwise 503 and the reason
METRICS_ADDR   /metrics  Prometheus' text format
"""

from collections.abc import Callable

from aiohttp import web

from varnish_gateway.runtime.webserver import Page, WebServer, alive


def health_server(readiness: Callable[[], tuple[int, str]]) -> WebServer:
    return WebServer({"GET /healthz": alive, "GET /readyz": _plain(readiness)}, "HEALTH_ADDR")


def metrics_server(metrics: Callable[[], str]) -> WebServer:
    return WebServer({"GET /metrics": _plain(lambda: (200, metrics()))}, "METRICS_ADDR")


def _plain(content: Callable[[], tuple[int, str]]) -> Page:
    async def page(_: web.Request) -> web.Response:
        status, text = content()
        return web.Response(status=status, text=text)

    return page
