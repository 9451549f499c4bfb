"""What the outside may ask ``vgw run``, on --health-addr.

/health   200 while the process lives
/ready    200 while every Gateway serves, 503 otherwise; the answer names what each one serves, and the problems
          that keep the newest files from serving as a whole
/metrics  Prometheus' text format: those of a gateway pod with the label ``gateway``, which is "" for the files
/invalidate  POST: invalidates objects in the caches of all Gateways, for clients with a token
/inspect  POST: tells the same clients what these caches hold for a URL
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
from aiohttp import web

from varnish_gateway.api import Key
from varnish_gateway.dataplane.invalidation.inspect_page import InspectPage
from varnish_gateway.dataplane.invalidation.page import InvalidatePage
from varnish_gateway.dataplane.invalidation.token_file import TokenFile
from varnish_gateway.dataplane.metrics import RELOAD_FAILURES, up_to_date
from varnish_gateway.ir import InvalidationStatus
from varnish_gateway.runtime.prometheus import family, labelled
from varnish_gateway.runtime.webserver import WebServer, alive, json_page, text_page
from varnish_gateway.standalone.invalidations import FileInvalidations
from varnish_gateway.standalone.plane import Plane

SHOWN = 20
"""More problems than this are counted, not listed."""
INVALIDATIONS = ("vgw_file_invalidations", "gauge", "VarnishCacheInvalidations of the files by phase.")


class Serving(Protocol):
    """Engine, or what a test has in its place."""

    @property
    def planes(self) -> Mapping[Key, Plane]: ...

    @property
    def problems(self) -> Sequence[str]: ...

    @property
    def is_up_to_date(self) -> bool: ...

    rejections: int
    invalidations: FileInvalidations


def health_server(serving: Serving, tokens: Path | None = None) -> WebServer:
    async def ready(_: web.Request) -> web.Response:
        planes = serving.planes
        served = {_name(key): plane.served for key, plane in planes.items()}
        is_ready = bool(served) and all(plane.is_ready for plane in planes.values())
        page = {
            "ready": is_ready,
            "upToDate": serving.is_up_to_date,
            "gateways": served,
            "problems": _shown(serving.problems),
            "invalidations": _invalidations(serving.invalidations.statuses),
        }
        return json_page(msgspec.json.encode(page), is_ready=is_ready)

    async def metrics(_: web.Request) -> web.Response:
        planes = dict(serving.planes)
        pages = await asyncio.gather(*(plane.metrics() for plane in planes.values()))
        by_name = {"": list(lines_of_files(serving)), **dict(zip(map(_name, planes), pages, strict=True))}
        return text_page(labelled("gateway", by_name))

    def caches() -> Mapping[str, Plane]:
        return {_name(key): plane for key, plane in serving.planes.items()}

    of_clients = TokenFile(tokens, "--invalidation-tokens")
    pages = {
        "GET /health": alive,
        "GET /ready": ready,
        "GET /metrics": metrics,
        "POST /invalidate": InvalidatePage(caches, of_clients).answer,
        "POST /inspect": InspectPage(caches, of_clients).answer,
    }
    return WebServer(pages, "--health-addr")


def _name(key: Key) -> str:
    return f"{key.namespace}/{key.name}"


def lines_of_files(serving: Serving) -> Iterator[str]:
    """Yield what machines have to know about files: a rejected one belongs to no Gateway."""
    yield from family(RELOAD_FAILURES[0], "counter", RELOAD_FAILURES[1], [({}, serving.rejections)])
    yield from up_to_date(is_so=serving.is_up_to_date)
    phases = [({"phase": phase}, count) for phase, count in sorted(serving.invalidations.phases.items())]
    yield from family(*INVALIDATIONS, phases)


def _invalidations(statuses: Mapping[Key, InvalidationStatus]) -> dict[str, Any]:
    """Return how far those of the files have come, those that are not complete first."""
    ordered = sorted(statuses.items(), key=lambda item: (item[1].phase == "Complete", item[0]))
    return {
        _name(key): {"phase": status.phase, "objects": status.objects, "conditions": status.conditions}
        for key, status in ordered[:SHOWN]
    }


def _shown(problems: Sequence[str]) -> list[str]:
    more = len(problems) - SHOWN
    return [*problems[:SHOWN], *([f"and {more} more"] if more > 0 else [])]
