"""What the cluster contains, as last observed.

In:   objects, one by one, from ChangeCollector.
Out:  lookups by key and by Gateway; each costs what it returns.
Pure. Planning and the executors read it; only ChangeCollector writes it.
"""

from msgspec import Struct, field

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.ir.capabilities import ALL
from varnish_gateway.operator.observe.inputs import ObservedInput
from varnish_gateway.operator.observe.owned import OwnedConfigMap, OwnedObject, OwnedSecret
from varnish_gateway.operator.observe.pods import GatewayPod, secret_read
from varnish_gateway.translate.options import CONTROLLER


class Batch(Struct):
    """Everything that changed since the previous batch.

    ``inputs`` are objects to translate, None for a deleted one. ``stored`` are objects whose stored
    version changed, so their status may have to be written. ``owned`` are generated objects.
    ``reachability`` are Gateways whose pods or Service changed. ``has_released``: a Gateway stopped
    being another operator's, so a status that it carries may be ours to withdraw.
    """

    inputs: dict[Key, api.Object | None] = field(default_factory=dict)
    stored: set[Key] = field(default_factory=set)
    owned: set[Key] = field(default_factory=set)
    reachability: set[Key] = field(default_factory=set)
    has_released: bool = False


class ObservedState:
    """``inputs`` and ``owned`` hold the newest observed version of each object; ``pods`` are grouped by Gateway."""

    def __init__(self, class_name: str) -> None:
        self.class_key = Key(api.GatewayClass.kind, "", class_name)
        self.inputs: dict[Key, ObservedInput] = {}
        self.owned: dict[Key, OwnedObject] = {}
        self.pods: dict[Key, dict[Key, GatewayPod]] = {}
        self._owned_by: dict[Key, set[Key]] = {}
        self._pods: dict[Key, GatewayPod] = {}

    # -- lookups -------------------------------------------------------------------------

    def owned_by(self, gateway: Key) -> list[Key]:
        """Return the keys of a Gateway's generated objects."""
        return list(self._owned_by.get(gateway, ()))

    def ready_pods(self, gateway: Key) -> list[GatewayPod]:
        return [pod for pod in self.pods.get(gateway, {}).values() if pod.is_ready and pod.address]

    def remaining_pods(self, gateway: Key) -> list[GatewayPod]:
        """Return the pods that serve, or may in a moment: one without an address runs nothing, perhaps for ever."""
        return [pod for pod in self.pods.get(gateway, {}).values() if pod.address and not pod.is_leaving]

    def former_kinds(self, gateway: Key, uid: str) -> frozenset[str]:
        """Return the kinds whose object an earlier version created for this very Gateway: it keeps its name.

        Another name would cost the address of a load balancer and the caches of all pods.
        """
        name = names.former_workload(gateway.name)
        found = {kind: self.owned.get(Key(kind, gateway.namespace, name)) for kind in names.WORKLOAD_KINDS}
        return frozenset(kind for kind, owned in found.items() if owned is not None and _is_of(owned, gateway, uid))

    def needs_former_secret(self, gateway: Key, uid: str) -> bool:
        """Whether pods of an earlier version read the Secret under its former name, or may yet be created to."""
        former = names.former_secret(gateway.name)
        owned = self.owned.get(Key(api.Secret.kind, gateway.namespace, former))
        if owned is None or not _is_of(owned, gateway, uid):
            return False
        return any(pod.secret == former for pod in self.pods.get(gateway, {}).values()) or any(
            secret_read(self.owned[key].text) == former for key in self.owned_by(gateway) if key.kind == "Deployment"
        )

    def token_in_use(self, gateway: Key, uid: str) -> str:
        """Return the token in the Secret of this very Gateway, "" where there is none."""
        owned = self.owned.get(Key(api.Secret.kind, gateway.namespace, names.secret(gateway.name)))
        return owned.token if isinstance(owned, OwnedSecret) and _is_of(owned, gateway, uid) else ""

    def shards_in_use(self, gateway: Key) -> int | None:
        """Return how many shards the stored index names; None where there is no ConfigMap yet."""
        main = self._main(gateway)
        return None if main is None else main.shards

    def capabilities_in_use(self, gateway: Key) -> frozenset[str]:
        """Return what stored routing is expressed with; all capabilities where there is no ConfigMap yet."""
        main = self._main(gateway)
        return ALL if main is None else ALL & main.understood

    def _main(self, gateway: Key) -> OwnedConfigMap | None:
        main = self.owned.get(Key("ConfigMap", gateway.namespace, names.config_map(gateway.name)))
        return main if isinstance(main, OwnedConfigMap) else None

    def has_our_labels(self, owned: OwnedObject) -> bool:
        """Whether the label selector of our watches matches the object."""
        return owned.class_label == names.label_value(self.class_key.name)

    def is_foreign(self, key: Key) -> bool:
        """Whether another operator with our controller name owns a Gateway, or the Gateway of a ListenerSet."""
        observed = self.inputs.get(key)
        if observed is not None and isinstance(observed.obj, api.ListenerSet):
            observed = self.inputs.get(observed.obj.gateway)
        if observed is None or not isinstance(observed.obj, api.Gateway):
            return False
        name = observed.obj.spec.gateway_class_name
        its_class = self.inputs.get(Key(api.GatewayClass.kind, "", name))
        if its_class is None or not isinstance(its_class.obj, api.GatewayClass):
            return False
        return name != self.class_key.name and its_class.obj.spec.controller_name == CONTROLLER

    # -- updates -------------------------------------------------------------------------

    def put_owned(self, key: Key, owned: OwnedObject) -> None:
        known = self.owned.get(key)
        if known is None or known.gateway != owned.gateway:
            self.remove_owned(key)
            self._owned_by.setdefault(owned.gateway, set()).add(key)
        self.owned[key] = owned

    def remove_owned(self, key: Key) -> None:
        known = self.owned.pop(key, None)
        if known is None:
            return
        keys = self._owned_by[known.gateway]
        keys.discard(key)
        if not keys:
            del self._owned_by[known.gateway]

    def put_pod(self, key: Key, pod: GatewayPod | None) -> GatewayPod | None:
        """Replace a pod, None for a deleted one; return the previous one."""
        before = self._pods.pop(key, None)
        if before is not None:
            self.pods[before.gateway].pop(key)
            if not self.pods[before.gateway]:
                del self.pods[before.gateway]
        if pod is not None:
            self._pods[key] = pod
            self.pods.setdefault(pod.gateway, {})[key] = pod
        return before


def _is_of(owned: OwnedObject, gateway: Key, uid: str) -> bool:
    """Whether we applied an object for this Gateway, and not for an earlier one of the name."""
    return owned.is_applied_by_us and owned.gateway == gateway and owned.owner == uid and not owned.is_deleting
