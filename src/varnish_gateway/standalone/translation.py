"""Translate files once.

In:   paths.
Out:  everything that they come to: Gateways with listeners, routes and VCL, statuses, and
      what is wrong with the files.
What ``vgw translate`` and ``vgw explain`` look at is made here from the same parts that
``vgw run`` serves.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from varnish_gateway.api import Key
from varnish_gateway.emit.listen import varnish_listen
from varnish_gateway.emit.routing import Shards
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import GatewayDelta, Status, UserVcl, UserVclUnavailable, wire
from varnish_gateway.standalone.files import Files
from varnish_gateway.standalone.objects import Changes
from varnish_gateway.standalone.schema import Catalogue
from varnish_gateway.standalone.tree import check_roots, scan
from varnish_gateway.translate import Translator


@dataclass(frozen=True)
class Gateway:
    """One data plane, as its files describe it."""

    listeners: tuple[wire.Listener, ...]
    routes: tuple[wire.Route, ...]
    shards: tuple[bytes, ...]
    listen: str
    vcl: str | None  # None: the user VCL that belongs into it can't be had
    tls: tuple[wire.TlsPort, ...] = ()  # which certificates end TLS where; keys stay out of this


@dataclass(frozen=True)
class Translation:
    """What files come to."""

    changes: Changes
    gateways: dict[Key, Gateway]
    statuses: dict[Key, Status]


def file_translator() -> Translator:
    """Return a translator for files: every Gateway is ours, on one machine, with no port set aside."""
    return Translator(assume_class=True, allow_external_name=True, one_machine=True, reserved_ports=frozenset())


def translate_files(paths: Sequence[str]) -> Translation:
    """Read and translate everything under paths."""
    check_roots(paths)
    files = Files(Catalogue())
    changes = files.update(scan(paths).files)
    delta = file_translator().update(changes.objects)
    gateways = {}
    for key, found in delta.gateways.items():
        if found is None:
            continue
        listeners = found.listeners or ()
        gateways[key] = Gateway(
            listeners=listeners,
            routes=tuple(route for _, route in sorted(found.routes.items()) if route is not None),
            shards=tuple(_shards(listeners, found.routes).values()),
            listen=varnish_listen(found.placed or ()),
            vcl=_vcl(found),
            tls=found.tls.ports if found.tls is not None else (),
        )
    statuses = {key: status for key, status in delta.statuses.items() if status is not None}
    return Translation(changes, gateways, statuses)


def _vcl(found: GatewayDelta) -> str | None:
    if isinstance(found.user_vcl, UserVclUnavailable):
        return None
    return main_vcl(found.user_vcl if isinstance(found.user_vcl, UserVcl) else None)


def _shards(listeners: tuple[wire.Listener, ...], routes: dict[Key, wire.Route | None]) -> dict[int, bytes]:
    shards = Shards()
    shards.update(listeners=listeners, routes=routes)
    return shards.all()
