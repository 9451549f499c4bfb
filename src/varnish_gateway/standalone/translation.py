"""Translate files once.

In:   paths.
Out:  Translation: Gateways with listeners, routes and VCL, the statuses of all objects, and the errors
      in the files.
``vgw translate`` and ``vgw explain`` use it. ``vgw run`` serves with the same parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from varnish_gateway.api import Key
from varnish_gateway.emit.listen import varnish_listen
from varnish_gateway.emit.routing import Shards, request_rules
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import GatewayDelta, GatewayState, Status, wire
from varnish_gateway.standalone.files.objects import Changes
from varnish_gateway.standalone.files.reader import Files
from varnish_gateway.standalone.files.tree import check_roots, scan
from varnish_gateway.standalone.schema import Catalogue
from varnish_gateway.translate import Translator


@dataclass(frozen=True)
class TranslatedGateway:
    """One data plane, as its files describe it."""

    listeners: tuple[wire.Listener, ...]
    routes: tuple[wire.Route, ...]
    shards: tuple[bytes, ...]
    listen: str
    vcl: str | None  # None: its user VCL is not available
    tls: tuple[wire.TlsPort, ...] = ()  # certificates by port, without their keys


@dataclass(frozen=True)
class Translation:
    """The result for a set of files."""

    changes: Changes
    gateways: dict[Key, TranslatedGateway]
    statuses: dict[Key, Status]


def file_translator(*, compiles: bool = True) -> Translator:
    """Return a translator for files: it serves every Gateway, on one machine, and reserves no port."""
    return Translator(
        assume_class=True,
        allow_external_name=True,
        one_machine=True,
        reserved_ports=frozenset(),
        compiles=compiles,
    )


def translate_files(paths: Sequence[str]) -> Translation:
    """Read and translate everything under paths."""
    check_roots(paths)
    files = Files(Catalogue())
    changes = files.update(scan(paths).files)
    delta = file_translator().update(changes.objects)
    gateways = {key: _translated(found) for key, found in delta.gateways.items() if found is not None}
    statuses = {key: status for key, status in delta.statuses.items() if status is not None}
    return Translation(changes, gateways, statuses)


def _translated(delta: GatewayDelta) -> TranslatedGateway:
    state, shards = GatewayState(), Shards()
    state.apply(delta)
    shards.update(listeners=delta.listeners, requests=request_rules(delta.parameters), routes=delta.routes)
    return TranslatedGateway(
        listeners=state.listeners,
        routes=tuple(route for _, route in sorted(state.routes.items())),
        shards=tuple(shards.all().values()),
        listen=varnish_listen(state.placed),
        vcl=main_vcl(state.user_vcl or None, caching=True) if state.user_vcl_unavailable is None else None,
        tls=state.tls.ports,
    )
