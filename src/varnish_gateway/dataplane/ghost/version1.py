"""Version 1 documents, as the first gateways wrote them by hand.

In:   a routing.json of version 1 (vhosts with one service each), or a ghost.json.
Out:  the same as a version 2 routing shard, or as a Bundle.
Pure. Version 1 knows neither listeners nor names of ports: every socket serves, and a
Service's port is found by its number.
"""

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from varnish_gateway import errors
from varnish_gateway.dataplane.ghost.files import Bundle
from varnish_gateway.dataplane.ghost.join import ANY_PORT
from varnish_gateway.dataplane.jsontext import read_json
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir import wire

LISTENER = "http"


class Vhost(Struct, frozen=True, forbid_unknown_fields=True):
    service: str
    port: int
    namespace: str = ""
    weight: int = 100


class RoutingV1(Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    vhosts: dict[str, Vhost] = {}
    default: Vhost | None = None


class _Versioned(Struct, frozen=True):
    version: int


def version_of(content: bytes, source: str) -> int:
    """Return the version of a document."""
    return read_json(content, _Versioned, source).version


def routing_shard(content: bytes, source: str, namespace: str) -> tuple[bytes, wire.Routing]:
    """Return a routing.json of either version as a version 2 shard, read; BadDocument names source and field."""
    if version_of(content, source) != 1:
        return content, read_json(content, wire.Routing, source)
    routing = convert(read_json(content, RoutingV1, source), namespace)
    return msgspec.json.encode(routing), routing


def convert(document: RoutingV1, namespace: str) -> wire.Routing:
    """Return version 1 routing as version 2; vhosts without a namespace get the one given."""
    vhosts = dict(document.vhosts)
    if document.default is not None:
        vhosts["*"] = document.default
    routes = tuple(_route(host, vhosts[host], namespace) for host in sorted(vhosts))
    return wire.Routing(version=2, listeners=(wire.Listener(name=LISTENER, socket="*"),), routes=routes)


def _route(host: str, vhost: Vhost, namespace: str) -> wire.Route:
    backend = wire.Backend(
        weight=vhost.weight,
        service=f"{vhost.namespace or namespace}/{vhost.service}",
        port=vhost.port,
        port_name=ANY_PORT,
    )
    return wire.Route(
        namespace=vhost.namespace or namespace,
        name=host.lower(),
        attachments=(wire.Attachment(listener=LISTENER, hostnames=(host.lower(),)),),
        rules=(wire.Rule(backends=(backend,)),),
    )


def hand_written(content: bytes, source: str, read_beside: Callable[[str], bytes]) -> Bundle:
    """Return a hand-written ghost.json, with the files that it names, as a Bundle.

    Files get names by content, so that the data plane notices a change of a file under its old name.
    """
    if version_of(content, source) == 1:
        return Bundle(content_hash(content), content, {})
    manifest = read_json(content, wire.Manifest, source)
    files: dict[str, bytes] = {}
    routing = tuple(
        _rename(name, "routing", number, files, read_beside) for number, name in enumerate(manifest.routing)
    )
    endpoints = tuple(
        _rename(name, "endpoints", number, files, read_beside) for number, name in enumerate(manifest.endpoints)
    )
    identity = f"{manifest.id}-{content_hash(''.join((*routing, *endpoints)).encode())[:8]}"
    renamed = wire.Manifest(version=2, id=identity, routing=routing, endpoints=endpoints)
    return Bundle(identity, msgspec.json.encode(renamed), files)


def _rename(name: str, kind: str, number: int, files: dict[str, bytes], read_beside: Callable[[str], bytes]) -> str:
    if "/" in name:
        raise errors.BadDocument(f"ghost.json: {name!r} is not the name of a file beside it")
    content = read_beside(name)
    renamed = f"{kind}-{number}-{content_hash(content)}.json"
    files[renamed] = content
    return renamed
