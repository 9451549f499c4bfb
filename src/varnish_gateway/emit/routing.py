"""Routes of one Gateway as routing shards.

In:   the listeners, request rules and routes that changed.
Out:  the encoded shards that changed, by number.
Pure. A route is encoded once, when it changes; a shard is its members' bytes put together,
so one change costs about ``PER_SHARD`` routes' worth of copying whatever the total.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256

import msgspec

from varnish_gateway.api import Key
from varnish_gateway.api.varnish import Parameters, SharesParameters
from varnish_gateway.emit import sharding
from varnish_gateway.emit.sharding import ShardedMap, ShardRules
from varnish_gateway.ir import wire

PER_SHARD = 64
"""A shard is doubled beyond this many routes on average, and halved below a quarter of it."""
BYTES_PER_SHARD = 400_000
"""A larger shard of several routes is split: a ConfigMap takes 1 MiB, and main.vcl and the index are beside shard 0."""
STORABLE_BYTES = 900_000
"""The most bytes of a shard in a ConfigMap. The API server would reject a larger one, and then no change of any route
of the Gateway would reach its pods."""
ENOUGH_SHARDS = 128
"""Beyond this, shards become fuller rather than more: a pod that starts reads each of them by a request."""
MOST_SHARDS = 4096
"""An index of these takes 80,000 bytes, and lies beside shard 0."""

_BEGIN, _END = b',"routes":[\n', b"\n]}\n"
_encode = msgspec.json.Encoder().encode


def content_hash(text: bytes) -> str:
    """Return the hash by which an index names a shard."""
    return sha256(text).hexdigest()[:16]


def shard_of(namespace: str, name: str, shards: int) -> int:
    """Return the shard that holds a route.

    Several shards leave the first one to the listeners: it lies beside the index, which every change writes.
    """
    return sharding.shard_of(f"{namespace}/{name}", shards, spare_first=True)


def _rules() -> ShardRules:
    return ShardRules(
        grow_above=PER_SHARD,
        shrink_below=PER_SHARD / 4,
        most_bytes=BYTES_PER_SHARD,
        most_shards=MOST_SHARDS,
        enough=ENOUGH_SHARDS,
        spare_first=True,
    )


def request_rules(parameters: Parameters | None) -> wire.RequestRules | None:
    """Return what parameters say about every request; None where there are no parameters."""
    if parameters is None:
        return None
    forwarding, paths = parameters.forwarding, parameters.paths
    return wire.RequestRules(
        trusted_hops=forwarding.trusted_hops,
        trusted_ranges=forwarding.trusted_ranges,
        merge_slashes=paths.merge_slashes,
        reject=paths.reject,
        shares=_shares(parameters.shares),
        purge_ranges=parameters.invalidation.methods.allowed_source_ranges,
    )


def _shares(given: SharesParameters) -> wire.WorkerShares | None:
    """Return the shares that parameters give, with the defaults of the others; None where all are defaults."""
    names = ((name, getattr(given, name)) for name in SharesParameters.__struct_fields__)
    shares = wire.WorkerShares(**{name: value for name, value in names if value is not None})
    return None if shares == wire.WorkerShares() else shares


def endpoint_namespaces(routes: Iterable[wire.Route]) -> frozenset[str]:
    """Return the namespaces whose EndpointSlices the routes need. Operator and chaperone agree on it."""
    return frozenset(
        backend.service.partition("/")[0]
        for route in routes
        for rule in route.rules
        for backend in rule.backends
        if backend.service is not None and backend.external is None
    )


class Shards:
    """The shards of one Gateway.

    The number of shards depends on history near a boundary, so that a route that comes and
    goes there does not reshuffle everything. Start with the number already in use, if any.
    ``most_bytes``: routes beyond it are left out of a shard; None where shards may have any size.
    """

    def __init__(self, shards: int = 1, *, most_bytes: int | None = None) -> None:
        self._listeners: tuple[wire.Listener, ...] = ()
        self._requests: wire.RequestRules | None = None
        self._routes = ShardedMap[bytes](_rules(), shards, size=len)
        self._most_bytes = most_bytes
        self._left_out: dict[int, tuple[str, ...]] = {}  # by shard

    @property
    def left_out(self) -> tuple[str, ...]:
        """The routes that no shard can hold."""
        return tuple(name for names in self._left_out.values() for name in names)

    def __len__(self) -> int:
        return len(self._routes)

    def update(
        self,
        *,
        listeners: tuple[wire.Listener, ...] | None = None,
        requests: wire.RequestRules | None = None,
        routes: Mapping[Key, wire.Route | None],
    ) -> dict[int, bytes | None]:
        """Apply what changed; return the changed shards, None for one that is gone.

        ``listeners`` and ``requests`` None mean unchanged; a route with the value None is gone.
        """
        before = len(self)
        has_new_head = self._update_head(listeners, requests)
        touched = self._routes.update(
            {
                f"{namespace}/{name}": None if route is None else _encode(route)
                for (_, namespace, name), route in routes.items()
            },
            beside=len(_encode(self._head(0))) if has_new_head else None,
        )
        if has_new_head:
            touched.add(0)
        return self._changed(touched, before)

    def _update_head(self, listeners: tuple[wire.Listener, ...] | None, requests: wire.RequestRules | None) -> bool:
        """Apply what is in shard 0 beside routes; return whether that changed."""
        before = (self._listeners, self._requests)
        if listeners is not None:
            self._listeners = listeners
        if requests is not None:
            # Left out where it says nothing, so that pods that don't know the field can read the shard.
            self._requests = None if requests == wire.RequestRules() else requests
        return before != (self._listeners, self._requests)

    def resize(self, shards: int) -> dict[int, bytes | None]:
        """Use that many shards if the routes fit into them; return every shard, None for one that is gone."""
        before = len(self)
        self._routes.resize(shards)
        return self._changed(range(len(self)), before)

    def all(self) -> dict[int, bytes]:
        """Return every shard."""
        return {shard: self._encoded(shard) for shard in range(len(self))}

    def _changed(self, touched: Iterable[int], before: int) -> dict[int, bytes | None]:
        changed: dict[int, bytes | None] = {shard: self._encoded(shard) for shard in sorted(touched)}
        changed.update(dict.fromkeys(range(len(self), before)))
        if self._left_out:
            self._left_out = {shard: names for shard, names in self._left_out.items() if shard < len(self)}
        return changed

    def _encoded(self, shard: int) -> bytes:
        return _joined(_encode(self._head(shard))[:-1], self._storable(shard))

    def _head(self, shard: int) -> wire.Routing:
        head = wire.Routing(version=2, shard=shard, shards=len(self))
        if shard > 0:
            return head
        return msgspec.structs.replace(head, requests=self._requests, listeners=self._listeners)

    def _storable(self, shard: int) -> Mapping[str, bytes]:
        """Return the routes of a shard that fit into its ConfigMap."""
        members = self._routes[shard]
        self._left_out.pop(shard, None)
        most = self._most_bytes
        if most is None or self._routes.size_of(shard) <= most:
            return members
        left_out = frozenset(_surplus({name: len(text) for name, text in members.items()}, most))
        self._left_out[shard] = tuple(sorted(left_out))
        return {name: text for name, text in members.items() if name not in left_out}


def _surplus(sizes: Mapping[str, int], most: int) -> Iterator[str]:
    """Return the routes to leave out of a shard: the largest one of the namespace that takes the most, repeatedly.

    Users choose names, so a tenant can let large routes meet in the shard of another tenant.
    """
    taken: Counter[str] = Counter()
    routes: dict[str, list[tuple[int, str]]] = {}
    for name, size in sizes.items():
        namespace = name.partition("/")[0]
        taken[namespace] += size
        routes.setdefault(namespace, []).append((size, name))
    for found in routes.values():
        found.sort()
    while taken.total() > most:
        greediest = max(taken, key=lambda namespace: (taken[namespace], namespace))
        size, name = routes[greediest].pop()
        taken[greediest] -= size
        yield name


def patched(text: bytes, patch: wire.Patch) -> bytes:
    """Return the text of a shard after a patch; the caller compares its hash with the index."""
    opened, members = _parted(text)
    for route in patch.routes:
        members[f"{route.namespace}/{route.name}"] = _encode(route)
    for key in patch.gone:
        members.pop(key, None)
    return _joined(opened, members)


class _Named(msgspec.Struct, frozen=True):
    namespace: str
    name: str


_decode_named = msgspec.json.Decoder(_Named).decode


def _joined(opened: bytes, members: Mapping[str, bytes]) -> bytes:
    """Return a shard: its head, and its routes sorted by name, one per line."""
    if not members:
        return opened + b"}\n"
    return opened + _BEGIN + b",\n".join(members[key] for key in sorted(members)) + _END


def _parted(text: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Return the head and the routes of a shard that ``_joined`` wrote."""
    opened, begin, rest = text.partition(_BEGIN)
    if not begin:
        return text.removesuffix(b"}\n"), {}
    lines = rest.removesuffix(_END).split(b",\n")
    named = ((_decode_named(line), line) for line in lines)
    return opened, {f"{one.namespace}/{one.name}": line for one, line in named}
