"""Desired state of one Gateway.

In:   the Gateway, and the deltas that translation publishes about it.
Out:  manifests of its objects and its Secret, main.vcl, routing; what its pods should serve.
Pure. Objects are built again only when their inputs change.
"""

from collections import Counter
from typing import Any

from msgspec import UNSET, Struct

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.api.gateway_networking import Infrastructure
from varnish_gateway.emit import manifests, names
from varnish_gateway.emit.manifests import GatewayShape, Installation
from varnish_gateway.emit.routing import content_hash, endpoint_namespaces
from varnish_gateway.emit.tls import tls_hash
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import GatewayDelta, GatewayState, Parameters, Tls, wire
from varnish_gateway.ir.capabilities import ALL, CACHE_POLICIES, LATER_PORTS
from varnish_gateway.operator.observe.owned import OwnedConfigMap
from varnish_gateway.operator.plan.routing import DesiredRouting, EncodedShard
from varnish_gateway.operator.status.readiness import Expected

Objects = dict[Key, dict[str, Any]]
Changed = dict[Key, dict[str, Any] | None]

ACCESS_KINDS = ("ServiceAccount", "Role", "RoleBinding")
"""What a pod needs before it can read its ConfigMaps, and the EndpointSlices of their backends."""
NO_NAMESPACES: frozenset[str] = frozenset()


class RoutingWrite(Struct, frozen=True):
    """Everything one write of a Gateway's ConfigMaps needs, as of one moment.

    ``dirty`` are the further shards to compare, ``drained`` the marks to restore if the write fails.
    """

    shape: GatewayShape
    head: str
    first: EncodedShard
    dirty: tuple[tuple[int, EncodedShard], ...]
    hashes: tuple[str, ...]
    index: bytes | None
    patches: bytes | None
    understood: frozenset[str]
    vcl: str | None
    generation: int
    drained: frozenset[int]


class DesiredGateway:
    """``objects`` are None until the parameters of the class are valid.

    ``shape`` is what the objects were built from. ``pending_access`` are objects that pods need to
    read their ConfigMaps and that were not applied yet. ``indexed_config_maps`` are those that the
    Reconciler's index holds. ``own_sockets`` are those of its own listeners, ``sets`` those of its ListenerSets
    by listener, which decide about the statuses of these alone; ``set_sockets`` are all of the latter. ``former`` are
    the kinds whose object keeps the name of an earlier version, and ``has_former_secret`` says whether pods of one
    still read their Secret. ``pods_open_ports``: so the stored capabilities say. ``token`` is what its pods know the
    operator by, from its Secret.
    """

    def __init__(
        self, gateway: api.Gateway, installation: Installation, shards: int, understood: frozenset[str] = ALL
    ) -> None:
        metadata = gateway.metadata
        self.gateway = gateway
        self.state = GatewayState()
        self.routing = DesiredRouting(Key(api.Gateway.kind, metadata.namespace, metadata.name), shards, understood)
        self.vcl: str | None = None
        self.objects: Objects | None = None
        self.shape: GatewayShape | None = None
        self.former: frozenset[str] = frozenset()
        self.has_former_secret = False
        self.pods_open_ports = LATER_PORTS.name in understood
        self.token = ""
        self.pending_access: set[Key] = set()
        self.indexed_config_maps: dict[Key, int] = {}
        self.sets: dict[Key, dict[str, str]] = {}
        self.own_sockets: frozenset[str] = frozenset()
        self.set_sockets: frozenset[str] = frozenset()
        self._installation = installation
        self._head = ""
        self._secret_inputs: tuple[str, Tls, str, bool, bool] | None = None
        self._namespaces: Counter[str] = Counter()
        self._changed_namespaces: set[str] = set()

    @property
    def uid(self) -> str:
        return self.gateway.metadata.uid

    @property
    def service(self) -> Key:
        """The Service that holds the Gateway's addresses."""
        return Key(api.Service.kind, self.gateway.metadata.namespace, self._current_shape().workload(api.Service.kind))

    @property
    def deployment(self) -> Key:
        return Key("Deployment", self.gateway.metadata.namespace, self._current_shape().workload("Deployment"))

    @property
    def expected(self) -> Expected:
        """What every pod has to report."""
        return Expected(
            generation=str(self.gateway.metadata.generation),
            sockets=self.own_sockets,
            has_listeners=bool(self.state.listeners),
            vcl=content_hash(self.vcl.encode()) if self.vcl is not None else None,
            tls=tls_hash(self.state.tls),
            addresses=self._addresses,
            set_sockets=self.set_sockets,
        )

    def update(self, delta: GatewayDelta) -> None:
        """Apply a delta; ``rebuild`` has to follow."""
        for key, route in delta.routes.items():
            self._count_namespaces(self.state.routes.get(key), route)
        self.state.apply(delta)
        if delta.user_vcl is not UNSET and self.state.user_vcl_unavailable is None:
            self._compose_vcl()
        if delta.listeners is not None:
            self._index_sockets(delta.listeners)
        self.routing.update(delta)

    def express(self, understood: frozenset[str]) -> bool:
        """Express routing and VCL by what pods understand; return whether that is something else than before."""
        if not self.routing.express(understood, self.state):
            return False
        self._compose_vcl()
        return True

    def _compose_vcl(self) -> None:
        """Build main.vcl, whose frame calls functions that pods without cache policies don't have."""
        if self.state.user_vcl is not UNSET:
            caching = CACHE_POLICIES.name in self.routing.withholding.understood
            self.vcl = main_vcl(self.state.user_vcl, caching=caching)

    def _index_sockets(self, listeners: tuple[wire.Listener, ...]) -> None:
        self.own_sockets = frozenset(listener.socket for listener in listeners if listener.listener_set is None)
        self.sets = {}
        for listener in listeners:
            if listener.listener_set is not None:
                namespace, name, section = listener.listener_set
                self.sets.setdefault(Key(api.ListenerSet.kind, namespace, name), {})[section] = listener.socket
        self.set_sockets = frozenset(listener.socket for listener in listeners) - self.own_sockets

    # -- objects -------------------------------------------------------------------------

    def rebuild(self) -> Changed:
        """Build objects whose inputs changed; return them, None for one that is no longer desired."""
        shape = self._current_shape()
        is_ready = self.state.parameters is not None
        if shape == self.shape and is_ready == (self.objects is not None):
            changed = self._changed_bindings(shape) if is_ready else {}
        else:
            self.shape = shape
            self._head = manifests.head_hash(shape)
            self.routing.mark_dirty()
            changed = self._rebuilt_objects(shape) if is_ready else {}
        changed = self._changed_secret(shape, is_ready=is_ready) | changed
        self._changed_namespaces.clear()
        self.pending_access.update(key for key, manifest in changed.items() if manifest and key.kind in ACCESS_KINDS)
        self.pending_access.difference_update(key for key, manifest in changed.items() if manifest is None)
        return changed

    def _changed_secret(self, shape: GatewayShape, *, is_ready: bool) -> Changed:
        """Build the Secret if its inputs changed. Certificates are updated even while the class is invalid."""
        tls = self.state.tls
        inputs = (self._head, tls, self.token, is_ready, shape.has_former_secret)
        if self._secret_inputs == inputs or not (is_ready or tls.ports or self._secret_inputs):
            return {}
        had_former = self._secret_inputs is not None and self._secret_inputs[-1]
        self._secret_inputs = inputs
        changed: Changed = {
            Key("Secret", shape.namespace, name): manifests.secret(shape, tls, name, token=self.token)
            for name in manifests.secret_names(shape)
        }
        if had_former and not shape.has_former_secret:
            changed[Key("Secret", shape.namespace, names.former_secret(shape.name))] = None
        return changed

    def _rebuilt_objects(self, shape: GatewayShape) -> Changed:
        before = self.objects or {}
        after = manifests.objects(shape, self._installation)
        after |= manifests.bindings(shape, sorted(self._namespaces), self._installation)
        self.objects = after
        return {key: after.get(key) for key in {**before, **after} if before.get(key) != after.get(key)}

    def _changed_bindings(self, shape: GatewayShape) -> Changed:
        """Build and remove RoleBindings as namespaces gain their first backend and lose their last."""
        objects = self.objects or {}
        changed: Changed = {}
        for key, manifest in manifests.bindings(shape, sorted(self._changed_namespaces), self._installation).items():
            if key.namespace in self._namespaces:
                changed[key] = objects[key] = manifest
            elif objects.pop(key, None) is not None:
                changed[key] = None
        return changed

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
            listeners=self.state.placed,
            parameters=self.state.parameters or Parameters(),
            addresses=self._addresses,
            shards=len(self.routing),
            former=self.former,
            has_former_secret=self.has_former_secret,
        )

    @property
    def _addresses(self) -> tuple[str, ...]:
        return tuple(address.value for address in self.gateway.spec.addresses if address.value)

    def _count_namespaces(self, before: wire.Route | None, after: wire.Route | None) -> None:
        """Count the routes that need endpoints of a namespace."""
        needed = endpoint_namespaces([before]) if before else NO_NAMESPACES
        needs = endpoint_namespaces([after]) if after else NO_NAMESPACES
        for namespace in needed - needs:
            self._namespaces[namespace] -= 1
            if not self._namespaces[namespace]:
                del self._namespaces[namespace]
                self._changed_namespaces.add(namespace)
        for namespace in needs - needed:
            self._namespaces[namespace] += 1
            if self._namespaces[namespace] == 1:
                self._changed_namespaces.add(namespace)

    # -- ConfigMaps ----------------------------------------------------------------------

    def matches(self, key: Key, stored: OwnedConfigMap) -> bool:
        """Whether a ConfigMap is stored as desired."""
        number = self.routing.config_maps[key]
        if (stored.routing, stored.head) != (self.routing.shards[number].hash, self._head):
            return False
        if number:
            return True
        metadata = self.gateway.metadata
        understood = self.routing.withholding.understood
        desired = (self.routing.index, understood, self.vcl, str(metadata.generation), metadata.uid)
        return (stored.index, stored.understood, stored.vcl, stored.generation, stored.owner) == desired

    def begin_write(self, shape: GatewayShape) -> RoutingWrite:
        """Return what to write now, and drain the dirty marks: later changes need another write."""
        routing = self.routing
        drained = routing.drain_dirty()
        return RoutingWrite(
            shape=shape,
            head=self._head,
            first=routing.shards[0],
            dirty=tuple(
                (number, routing.shards[number]) for number in sorted(drained & routing.shards.keys()) if number
            ),
            hashes=routing.hashes,
            index=routing.index,
            patches=routing.drain_patches(),
            understood=routing.withholding.understood,
            vcl=self.vcl,
            generation=self.gateway.metadata.generation,
            drained=frozenset(drained),
        )

    def abort_write(self, write: RoutingWrite) -> None:
        """Mark everything dirty again that a failed write was about."""
        self.routing.restore_dirty(set(write.drained))
