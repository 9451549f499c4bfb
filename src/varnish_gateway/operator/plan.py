"""What one Gateway needs in the cluster.

In:   the Gateway as it is, and what translation says changed about it.
Out:  manifests of its objects, main.vcl, routing shards and their index.
Pure. A changed route costs its own shard; objects are made anew only when what they depend on
is another.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.api.gateway_networking import Infrastructure
from varnish_gateway.emit import manifests, names
from varnish_gateway.emit.manifests import GatewayShape, Installation
from varnish_gateway.emit.routing import Shards, content_hash
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import GatewayDelta, Parameters, UserVclUnavailable, wire

Manifest = dict[str, Any]

NOWHERE: frozenset[str] = frozenset()


class Shard(NamedTuple):
    text: bytes
    hash: str


class Plan:
    """``shards`` is the number already in use in the cluster, so that a restart moves nothing.

    ``doubted`` are those whose ConfigMaps may differ from what is wanted; others need no look.
    ``maps`` are the ConfigMaps of the Gateway and the shards that they hold. ``surplus`` are
    shards that are gone and whose ConfigMaps may still be there. ``readable``: what pods need in
    order to read them was brought about.
    """

    def __init__(self, gateway: api.Gateway, installation: Installation, shards: int) -> None:
        self.gateway = gateway
        self.vcl: str | None = None
        self.objects: dict[Key, Manifest] | None = None
        self._installation = installation
        self._shards = Shards(shards)
        self.shards = {number: _shard(text) for number, text in self._shards.all().items()}
        self.doubted: set[int] = set()
        self.surplus: set[int] = set()
        self.readable = False
        self.maps = self._new_maps()
        self._index = self._new_index()
        self._listeners: tuple[wire.Listener, ...] | None = None
        self._parameters: Parameters | None = None
        self._namespaces: Counter[str] = Counter()
        self._reached: dict[Key, frozenset[str]] = {}
        self._shape: GatewayShape | None = None

    @property
    def listeners(self) -> tuple[wire.Listener, ...]:
        """The listeners that are to be served."""
        return self._listeners or ()

    @property
    def sockets(self) -> frozenset[str]:
        return frozenset(listener.socket for listener in self.listeners)

    @property
    def shape(self) -> GatewayShape | None:
        """What the objects are made of; None while the parameters of the class are not known."""
        return self._shape

    def take(self, delta: GatewayDelta) -> None:
        """Take in what changed."""
        if delta.listeners is not None:
            self._listeners = delta.listeners
        if delta.parameters is not None:
            self._parameters = delta.parameters
        if delta.user_vcl is not UNSET and not isinstance(delta.user_vcl, UserVclUnavailable):
            self.vcl = main_vcl(delta.user_vcl)
        for route_key, route in delta.routes.items():
            self._reach(route_key, route)
        self._take_shards(self._shards.update(listeners=delta.listeners, routes=delta.routes))

    def keep_to(self, shards: int | None) -> bool:
        """Have as many shards as are in use, where they fit: whoever led before may have seen other moments than we."""
        if shards is None or shards == len(self._shards):
            return False
        self._take_shards(self._shards.resize(shards))
        return True

    def _take_shards(self, changed: Mapping[int, bytes | None]) -> None:
        for number, text in changed.items():
            if text is None:
                del self.shards[number]
                self.surplus.add(number)
            else:
                self.shards[number] = _shard(text)
        self.doubted.update(changed)
        self.surplus -= self.shards.keys()
        if len(self.maps) != len(self.shards):
            self.maps = self._new_maps()
        if any(changed):  # the index does not name shard 0
            self._index = self._new_index()

    def settle(self) -> bool:
        """Make the objects anew if what they depend on is another; return whether it was."""
        shape = self._current_shape()
        if shape is None or shape == self._shape:
            return False
        self._shape = shape
        self.readable = False
        self.doubt()
        self.objects = manifests.objects(shape, self._installation)
        return True

    def doubt(self, key: Key | None = None) -> None:
        """Have a ConfigMap looked at, or all of them."""
        self.doubted.update(self.shards if key is None else [self.maps[key]])

    def index(self) -> bytes | None:
        """Return shards.json; None for a Gateway of one shard."""
        return self._index

    def _new_maps(self) -> dict[Key, int]:
        namespace, name = self.gateway.metadata.namespace, self.gateway.metadata.name
        return {Key("ConfigMap", namespace, names.config_map(name, number)): number for number in self.shards}

    def _new_index(self) -> bytes | None:
        if len(self.shards) < 2:
            return None
        hashes = ("", *(self.shards[number].hash for number in range(1, len(self.shards))))
        return msgspec.json.encode(wire.Index(version=2, shards=hashes))

    def _current_shape(self) -> GatewayShape | None:
        if self._parameters is None:
            return None
        spec, metadata = self.gateway.spec, self.gateway.metadata
        infrastructure = spec.infrastructure or Infrastructure()
        return GatewayShape(
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            class_name=spec.gateway_class_name,
            labels=infrastructure.labels,
            annotations=infrastructure.annotations,
            listeners=self.listeners,
            parameters=self._parameters,
            addresses=tuple(address.value for address in spec.addresses if address.value),
            shards=len(self._shards),
            endpoint_namespaces=frozenset(self._namespaces),
        )

    def _reach(self, route_key: Key, route: wire.Route | None) -> None:
        """Count the namespaces whose endpoints the route needs."""
        before = self._reached.pop(route_key, NOWHERE)
        after = frozenset(_namespaces(route)) if route else NOWHERE
        if after:
            self._reached[route_key] = after
        for namespace in before - after:
            self._namespaces[namespace] -= 1
            if not self._namespaces[namespace]:
                del self._namespaces[namespace]
        for namespace in after - before:
            self._namespaces[namespace] += 1


def _shard(text: bytes) -> Shard:
    return Shard(text, content_hash(text))


def _namespaces(route: wire.Route) -> Iterator[str]:
    for rule in route.rules:
        for backend in rule.backends:
            if backend.service is not None and backend.external is None:
                yield backend.service.partition("/")[0]
