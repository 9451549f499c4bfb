"""Join routing with EndpointSlices.

In:   the pools that routing shards name, EndpointSlices, addresses of external names, and
the pools' endpoints from before a restart.
Out:  the pools whose endpoints changed, each sorted; None for a pool that no route names any more.
Pure and incremental: a change looks at the pools of the Services that it touches.

Like kube-proxy, a pool uses ready endpoints; without any, it uses terminating endpoints that still
serve. A port is found by its name in the EndpointSlices. A pool keeps its remembered endpoints until
the EndpointSlices of its namespace have been listed.
"""

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from varnish_gateway.api import EndpointSlice, Key
from varnish_gateway.api.discovery import EndpointPort, SliceEndpoint
from varnish_gateway.dataplane.ghost.files import Pool, Pools
from varnish_gateway.dataplane.ghost.unserved import UnservedIndex, UnservedPools, unserved_port
from varnish_gateway.ir import wire

ANY_PORT = "*"
"""As port name: the port of that number, else the only one. Version 1 routing names no ports."""


class Need(Struct, frozen=True):
    """The pool that a backend of a route needs."""

    service: str
    port: int
    port_name: str = ""
    external: str | None = None

    @property
    def pool(self) -> str:
        return f"{self.service}:{self.port}"


class _Backend(Struct, frozen=True, rename="camel"):
    """The part of wire.Backend that names a pool; the rest is skipped, which is quick."""

    service: str | None = None
    port: int | None = None
    port_name: str = ""
    external: str | None = None


class _Rule(Struct, frozen=True):
    backends: tuple[_Backend, ...] = ()


class _Route(Struct, frozen=True):
    rules: tuple[_Rule, ...] = ()


class _Shard(Struct, frozen=True):
    routes: tuple[_Route, ...] = ()


_decode_shard = msgspec.json.Decoder(_Shard).decode


def needs_of(shard: bytes) -> frozenset[Need]:
    """Return what the backends of a routing shard ask for."""
    return frozenset(
        Need(backend.service, backend.port, backend.port_name, backend.external)
        for route in _decode_shard(shard).routes
        for rule in route.rules
        for backend in rule.backends
        if backend.service is not None and backend.port is not None
    )


class Join:
    """Everything known at present; every method returns the names of pools to look at again."""

    def __init__(self) -> None:
        self._shards: dict[int, frozenset[Need]] = {}
        self._needs: dict[str, Counter[Need]] = {}  # by pool, with the number of shards that ask
        self._pools_of: dict[str, set[str]] = {}  # by Service
        self._pools_of_host: dict[str, set[str]] = {}
        self._slices: dict[str, dict[Key, EndpointSlice]] = {}  # by Service
        self._service_of: dict[Key, str] = {}
        self._resolved: dict[str, tuple[str, ...]] = {}
        self._remembered: dict[str, Pools] = {}  # by namespace
        self._listed: set[str] = set()
        self._known: Pools = {}
        self._unserved = UnservedIndex()

    @property
    def unserved(self) -> UnservedPools:
        """Pools that can't have endpoints, of namespaces whose EndpointSlices are all known."""
        return self._unserved.summary(self._listed)

    @property
    def external_hosts(self) -> frozenset[str]:
        """Host names that need a resolver."""
        return frozenset(host for host in self._pools_of_host if known_addresses(host) is None)

    def update(
        self,
        routing: Mapping[int, bytes | None] | None = None,
        slices: Mapping[Key, EndpointSlice | None] | None = None,
        resolved: Mapping[str, tuple[str, ...]] | None = None,
        remembered: Mapping[str, Pool] | None = None,
        listed: Iterable[str] = (),
    ) -> dict[str, Pool | None]:
        """Apply changes and return the pools that changed.

        ``listed`` are namespaces whose EndpointSlices are all known from now on.
        """
        touched: set[str] = set()
        for name, pool in (remembered or {}).items():
            self._remembered.setdefault(namespace_of(name), {})[name] = pool
            touched.add(name)
        for shard, content in (routing or {}).items():
            touched |= self._replace_needs(shard, frozenset() if content is None else needs_of(content))
        if routing:
            self._forget_hosts()
        for key, piece in (slices or {}).items():
            touched |= self._replace_slice(key, piece)
        for host, addresses in (resolved or {}).items():
            self._resolved[host] = addresses
            touched |= self._pools_of_host.get(host, set())
        for namespace in listed:
            self._listed.add(namespace)
            self._unserved.forget_summary()
            touched |= self._remembered.get(namespace, {}).keys()
        return dict(self._changed(touched))

    def _changed(self, touched: Iterable[str]) -> Iterable[tuple[str, Pool | None]]:
        for name in touched:
            pool = self._pool(name)
            self._unserved.put(namespace_of(name), name, None if pool or pool is None else self._why_unserved(name))
            if pool is None:
                if self._known.pop(name, None) is not None:
                    yield name, None
            elif self._known.get(name) != pool:
                self._known[name] = pool
                yield name, pool

    def _replace_needs(self, shard: int, needs: frozenset[Need]) -> set[str]:
        before = self._shards.pop(shard, frozenset())
        if needs:
            self._shards[shard] = needs
        for need in needs - before:
            self._needs.setdefault(need.pool, Counter())[need] += 1
            self._pools_of.setdefault(need.service, set()).add(need.pool)
            if need.external is not None:
                self._pools_of_host.setdefault(need.external, set()).add(need.pool)
        for need in before - needs:
            self._drop_need(need)
        return {need.pool for need in needs ^ before}

    def _drop_need(self, need: Need) -> None:
        needs = self._needs[need.pool]
        needs[need] -= 1
        if needs[need]:
            return
        del needs[need]
        if need.external is not None and all(other.external != need.external for other in needs):
            _discard(self._pools_of_host, need.external, need.pool)
        if not needs:
            del self._needs[need.pool]
            _discard(self._pools_of, need.service, need.pool)

    def _forget_hosts(self) -> None:
        """Drop the addresses of hosts that no route names; one that moves between shards is always named."""
        for host in self._resolved.keys() - self._pools_of_host.keys():
            del self._resolved[host]

    def _replace_slice(self, key: Key, piece: EndpointSlice | None) -> set[str]:
        touched: set[str] = set()
        if (before := self._service_of.pop(key, None)) is not None:
            pieces = self._slices[before]
            del pieces[key]
            if not pieces:
                del self._slices[before]
            touched |= self._pools_of.get(before, set())
        if piece is not None and piece.service is not None:
            service = f"{piece.metadata.namespace}/{piece.service}"
            self._service_of[key] = service
            self._slices.setdefault(service, {})[key] = piece
            touched |= self._pools_of.get(service, set())
        return touched

    def _pool(self, name: str) -> Pool | None:
        if (needs := self._needs.get(name)) is None:
            return None
        need = _chosen(needs)
        namespace = namespace_of(name)
        remembered = self._remembered.get(namespace, {}).get(name)
        if need.external is not None:
            addresses = known_addresses(need.external) or self._resolved.get(need.external)
            return remembered or () if addresses is None else pool_of_addresses(addresses, need.port)
        if remembered is not None and namespace not in self._listed:
            return remembered
        return pool_of_slices(self._slices.get(need.service, {}).values(), need)

    def _why_unserved(self, name: str) -> str | None:
        need = _chosen(self._needs[name])
        if need.external is not None:
            return None
        port_name = None if need.port_name == ANY_PORT else need.port_name
        return unserved_port(need.service, port_name, self._slices.get(need.service, {}).values())


def _chosen(needs: Iterable[Need]) -> Need:
    """Return one need: shards may disagree for a moment while a Service changes."""
    return max(needs, key=lambda need: (need.external or "", need.port_name))


def namespace_of(service: str) -> str:
    """Return the namespace of a Service or a pool."""
    return service.partition("/")[0]


def known_addresses(host: str) -> tuple[str, ...] | None:
    """Return the addresses of a host that needs no resolver: localhost, or an address itself."""
    bare = host.strip("[]").rstrip(".").lower()
    if bare == "localhost":
        return ("127.0.0.1",)
    try:
        return (str(ipaddress.ip_address(bare)),)
    except ValueError:
        return None


def pool_of_addresses(addresses: Iterable[str], port: int) -> Pool:
    return tuple(wire.Endpoint(address=address, port=port) for address in sorted(set(addresses)))


def pool_of_slices(slices: Iterable[EndpointSlice], need: Need) -> Pool:
    """Return the endpoints that serve need, merged over slices, sorted, each once."""
    ready: set[tuple[str, int]] = set()
    terminating: set[tuple[str, int]] = set()
    for piece in slices:
        if piece.address_type not in ("IPv4", "IPv6"):
            continue  # a name is no address: unserved_reason explains it to the user
        for port in _ports(piece.ports or (), need):
            for endpoint in piece.endpoints or ():
                addresses = {(address, port) for address in endpoint.addresses}
                if is_ready(endpoint):
                    ready |= addresses
                elif is_serving(endpoint) and endpoint.conditions.terminating:
                    terminating |= addresses
    return tuple(wire.Endpoint(address=address, port=port) for address, port in sorted(ready or terminating))


def unserved_reason(piece: EndpointSlice) -> str | None:
    """Return why a slice can't serve whatever the conditions of its endpoints, None if it may serve."""
    if piece.service is None:
        return "it has no label kubernetes.io/service-name, so it belongs to no Service"
    if piece.address_type not in ("IPv4", "IPv6"):
        return f"addressType {piece.address_type} is not served; use IPv4 or IPv6, or an ExternalName Service"
    return None


def is_ready(endpoint: SliceEndpoint) -> bool:
    return endpoint.conditions.ready is not False


def is_serving(endpoint: SliceEndpoint) -> bool:
    serving = endpoint.conditions.serving
    return is_ready(endpoint) if serving is None else serving


def _ports(ports: tuple[EndpointPort, ...], need: Need) -> Iterable[int]:
    candidates = [port for port in ports if port.protocol == "TCP" and port.port is not None]
    if need.port_name == ANY_PORT:
        same = [port for port in candidates if port.port == need.port]
        candidates = same or (candidates if len(candidates) == 1 else [])
    else:
        candidates = [port for port in candidates if (port.name or "") == need.port_name]
    return [port.port for port in candidates if port.port is not None]


def _discard(index: dict[str, set[str]], key: str, member: str) -> None:
    members = index[key]
    members.discard(member)
    if not members:
        del index[key]
