"""What one Gateway needs in the cluster.

In:   the Gateway as it is, and what translation says changed about it.
Out:  manifests of its objects and its Secret, main.vcl, routing shards and their index.
Pure. A changed route costs its own shard; objects are made anew only when what they depend on
is another.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.api.gateway_networking import Infrastructure
from varnish_gateway.emit import manifests, names
from varnish_gateway.emit.manifests import GatewayShape, Installation
from varnish_gateway.emit.routing import Shards, content_hash, endpoint_namespaces, shard_of
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import GatewayDelta, Parameters, Tls, UserVclUnavailable, wire
from varnish_gateway.operator.observe.owned import LiveMap
from varnish_gateway.operator.plan.patches import Recent

Manifest = dict[str, Any]

READING = ("ServiceAccount", "Role", "RoleBinding")
"""What a pod needs before it can read its ConfigMaps, and the EndpointSlices that they lead to."""
NOWHERE: frozenset[str] = frozenset()


class Shard(NamedTuple):
    text: bytes
    hash: str


class Plan:
    """``shards`` is the number already in use in the cluster, so that a restart moves nothing.

    ``doubted`` are those whose ConfigMaps may differ from what is wanted; others need no look.
    ``maps`` are the ConfigMaps of the Gateway and the shards that they hold. ``surplus`` are
    shards that are gone and whose ConfigMaps may still be there. ``hashes`` are those of all shards
    as the index names them, ``head`` is the one of the labels and the like of all ConfigMaps.
    ``unread``: what pods need in order to read them, and was not brought about yet. ``noted``: the
    maps that whoever looks after all Gateways knows of.
    """

    def __init__(self, gateway: api.Gateway, installation: Installation, shards: int) -> None:
        self.gateway = gateway
        self.vcl: str | None = None
        self.objects: dict[Key, Manifest] | None = None
        self.tls = Tls()
        self._sealed: tuple[str, Tls, bool] | None = None  # what the Secret was made of
        self._installation = installation
        self._shards = Shards(shards)
        self.recent = Recent()
        self.shards = {number: _shard(text) for number, text in self._shards.all().items()}
        self.doubted: set[int] = set()
        self.surplus: set[int] = set()
        self.head = ""
        self.unread: set[Key] = set()
        self.noted: set[Key] = set()
        self.maps = self._new_maps()
        self.hashes = self._all_hashes()
        self._index = self._new_index()
        self._listeners: tuple[wire.Listener, ...] = ()
        self._placed: tuple[wire.Listener, ...] = ()
        self._parameters: Parameters | None = None
        self._namespaces: Counter[str] = Counter()
        self._moved: set[str] = set()  # namespaces that came or went since the objects were made
        self._reached: dict[Key, frozenset[str]] = {}
        self._shape: GatewayShape | None = None

    @property
    def sockets(self) -> frozenset[str]:
        """The sockets on which listeners are to be served."""
        return frozenset(listener.socket for listener in self._listeners)

    @property
    def shape(self) -> GatewayShape | None:
        """What the objects are made of, with no parameters as long as those of the class are not known."""
        return self._shape

    def take(self, delta: GatewayDelta) -> None:
        """Take in what changed."""
        if delta.tls is not None:
            self.tls = delta.tls
        if delta.listeners is not None:
            self._listeners = delta.listeners
        if delta.placed is not None:
            self._placed = delta.placed
        if delta.parameters is not None:
            self._parameters = delta.parameters
        if delta.user_vcl is not UNSET and not isinstance(delta.user_vcl, UserVclUnavailable):
            self.vcl = main_vcl(delta.user_vcl)
        for route_key, route in delta.routes.items():
            self._reach(route_key, route)
        self._take_shards(self._shards.update(listeners=delta.listeners, routes=delta.routes))
        if len(self._shards) > 1:
            for (_, namespace, name), route in delta.routes.items():
                self.recent.add(shard_of(namespace, name, len(self._shards)), f"{namespace}/{name}", route)

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
            self.recent.forget()
            self.hashes = self._all_hashes()
        elif any(changed):  # the index does not name shard 0
            hashes = list(self.hashes)
            for number in filter(None, changed):
                hashes[number] = self.shards[number].hash
            self.hashes = tuple(hashes)
        self._index = self._new_index()

    def settle(self) -> dict[Key, Manifest | None]:
        """Make objects anew where what they depend on is another; return those, None for one that is gone."""
        shape = self._current_shape()
        is_ready = self._parameters is not None
        if shape == self._shape and is_ready == (self.objects is not None):
            changed = self._moved_bindings(shape) if is_ready else {}
        else:
            self._shape = shape
            self.head = manifests.head_hash(shape)
            self.doubt()
            changed = self._made_anew(shape) if is_ready else {}
        changed = self._seal(shape, is_ready=is_ready) | changed
        self._moved.clear()
        self.unread.update(key for key, manifest in changed.items() if manifest and key.kind in READING)
        self.unread.difference_update(key for key, manifest in changed.items() if manifest is None)
        return changed

    def _seal(self, shape: GatewayShape, *, is_ready: bool) -> dict[Key, Manifest | None]:
        """Make the Secret anew where that is needed. Certificates flow also while a class is at fault."""
        made_of = (self.head, self.tls, is_ready)
        if self._sealed == made_of or not (is_ready or self.tls.ports or self._sealed):
            return {}
        self._sealed = made_of
        return {Key("Secret", shape.namespace, names.secret(shape.name)): manifests.secret(shape, self.tls)}

    def _made_anew(self, shape: GatewayShape) -> dict[Key, Manifest | None]:
        before = self.objects or {}
        after = manifests.objects(shape, self._installation)
        after |= manifests.bindings(shape, sorted(self._namespaces), self._installation)
        self.objects = after
        return {key: after.get(key) for key in {**before, **after} if before.get(key) != after.get(key)}

    def _moved_bindings(self, shape: GatewayShape) -> dict[Key, Manifest | None]:
        """Make and drop the RoleBindings of the namespaces that came and went."""
        objects = self.objects or {}
        changed: dict[Key, Manifest | None] = {}
        for key, manifest in manifests.bindings(shape, sorted(self._moved), self._installation).items():
            if key.namespace in self._namespaces:
                changed[key] = objects[key] = manifest
            elif objects.pop(key, None) is not None:
                changed[key] = None
        return changed

    def doubt(self, key: Key | None = None) -> None:
        """Have a ConfigMap looked at, or all of them."""
        self.doubted.update(self.shards if key is None else [self.maps[key]])

    def holds(self, key: Key, live: LiveMap) -> bool:
        """Whether a ConfigMap is stored as it is wanted."""
        number = self.maps[key]
        if (live.routing, live.head) != (self.shards[number].hash, self.head):
            return False
        if number:
            return True
        metadata = self.gateway.metadata
        wanted = (self._index, self.vcl, str(metadata.generation), metadata.uid)
        return (live.index, live.vcl, live.generation, live.owner) == wanted

    def index(self) -> bytes | None:
        """Return shards.json; None for a Gateway of one shard."""
        return self._index

    def _new_maps(self) -> dict[Key, int]:
        namespace, name = self.gateway.metadata.namespace, self.gateway.metadata.name
        return {Key("ConfigMap", namespace, names.config_map(name, number)): number for number in self.shards}

    def _all_hashes(self) -> tuple[str, ...]:
        return ("", *(self.shards[number].hash for number in range(1, len(self.shards))))

    def _new_index(self) -> bytes | None:
        if len(self.shards) < 2:
            return None
        return msgspec.json.encode(wire.Index(version=2, shards=self.hashes))

    def _current_shape(self) -> GatewayShape:
        spec, metadata = self.gateway.spec, self.gateway.metadata
        infrastructure = spec.infrastructure or Infrastructure()
        return GatewayShape(
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            class_name=spec.gateway_class_name,
            labels=infrastructure.labels,
            annotations=infrastructure.annotations,
            listeners=self._placed,
            parameters=self._parameters or Parameters(),
            addresses=tuple(address.value for address in spec.addresses if address.value),
            shards=len(self._shards),
        )

    def _reach(self, route_key: Key, route: wire.Route | None) -> None:
        """Count the namespaces whose endpoints the route needs."""
        before = self._reached.pop(route_key, NOWHERE)
        after = endpoint_namespaces([route]) if route else NOWHERE
        if after:
            self._reached[route_key] = after
        for namespace in before - after:
            self._namespaces[namespace] -= 1
            if not self._namespaces[namespace]:
                del self._namespaces[namespace]
                self._moved.add(namespace)
        for namespace in after - before:
            self._namespaces[namespace] += 1
            if self._namespaces[namespace] == 1:
                self._moved.add(namespace)


def _shard(text: bytes) -> Shard:
    return Shard(text, content_hash(text))
