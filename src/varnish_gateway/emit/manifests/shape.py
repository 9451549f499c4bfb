"""What the objects of a Gateway depend on."""

from msgspec import Struct, field

from varnish_gateway.emit import names
from varnish_gateway.ir import Parameters, wire


class Installation(Struct, frozen=True, kw_only=True):
    """Settings of the operator that its manifests contain."""

    image: str
    image_pull_secrets: tuple[str, ...] = ()
    chaperone_role: str = "varnish-gateway-chaperone"  # the ClusterRole for EndpointSlices
    log_level: str = "info"


class GatewayShape(Struct, frozen=True, kw_only=True):
    """One Gateway. ``labels`` and ``annotations`` are those of spec.infrastructure.

    ``listeners`` have their sockets in the pods, whether they are served already or not.
    """

    namespace: str
    name: str
    uid: str
    class_name: str
    listeners: tuple[wire.Listener, ...] = ()
    parameters: Parameters = Parameters()
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    addresses: tuple[str, ...] = ()  # requested of the load balancer
    shards: int = 1
    former: frozenset[str] = frozenset()  # kinds whose object keeps the name of an earlier version
    has_former_secret: bool = False  # pods of an earlier version still read it

    def workload(self, kind: str) -> str:
        """Return the name of its object of a kind."""
        return names.former_workload(self.name) if kind in self.former else names.workload(self.name)
