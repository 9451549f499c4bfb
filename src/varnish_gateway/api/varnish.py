"""gateway.varnish-software.com: GatewayClassParameters."""

from typing import Any, ClassVar, Literal

from msgspec import field

from varnish_gateway.api.meta import Object, Read

GROUP = "gateway.varnish-software.com"


class ConfigMapRef(Read, frozen=True):
    name: str
    namespace: str
    key: str = "user.vcl"


class Logging(Read, frozen=True, omit_defaults=True):
    """The access log. Without an image of its own it runs in the gateway's."""

    mode: str = "varnishlog"
    format: str = ""
    extra_args: tuple[str, ...] = ()
    image: str = ""


class Autoscaling(Read, frozen=True, omit_defaults=True):
    max_replicas: int
    min_replicas: int = 1
    target_cpu_utilization: int = field(default=80, name="targetCPUUtilizationPercentage")  # of the requested CPU


class ServiceParameters(Read, frozen=True, omit_defaults=True):
    type: str = "LoadBalancer"
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    load_balancer_class: str = ""
    load_balancer_source_ranges: tuple[str, ...] = ()
    external_traffic_policy: str = ""


class Forwarding(Read, frozen=True, omit_defaults=True):
    """The proxies in front of the gateway, by number or by address."""

    trusted_hops: int | None = None
    trusted_ranges: tuple[str, ...] = ()


class Paths(Read, frozen=True, omit_defaults=True):
    """Which paths the gateway accepts, and what it makes of them."""

    merge_slashes: bool = False
    reject: tuple[Literal["%2F", "%5C", "..;"], ...] = ()


class PortRange(Read, frozen=True, omit_defaults=True):
    """Ports from the first to the last, which is the first one unless given."""

    first: int
    last: int = 0

    def __contains__(self, port: int) -> bool:
        return self.first <= port <= (self.last or self.first)

    def __str__(self) -> str:
        return f"{self.first}-{self.last}" if self.last else str(self.first)


class ListenerSetParameters(Read, frozen=True, omit_defaults=True):
    """What ListenerSets may do to a Gateway. Without ports they may open any."""

    ports: tuple[PortRange, ...] = ()


class Parameters(Read, frozen=True, omit_defaults=True):
    """What a class configures about its Gateways, but for user VCL.

    The parts that describe pods are copied into a Deployment as they are, not interpreted.
    """

    image: str = ""
    replicas: int | None = None
    autoscaling: Autoscaling | None = None
    varnishd_extra_args: tuple[str, ...] = ()
    logging: Logging | None = None
    extra_volumes: tuple[dict[str, Any], ...] = ()
    extra_volume_mounts: tuple[dict[str, Any], ...] = ()
    extra_init_containers: tuple[dict[str, Any], ...] = ()
    resources: dict[str, Any] | None = None
    pod_disruption_budget: dict[str, Any] | None = None
    topology_spread_constraints: tuple[dict[str, Any], ...] = ()
    service: ServiceParameters = ServiceParameters()
    affinity: dict[str, Any] | None = None
    tolerations: tuple[dict[str, Any], ...] = ()
    node_selector: dict[str, str] = field(default_factory=dict)
    pod_annotations: dict[str, str] = field(default_factory=dict)
    priority_class_name: str = ""
    forwarding: Forwarding = Forwarding()
    paths: Paths = Paths()
    listener_sets: ListenerSetParameters = ListenerSetParameters()


class ParametersSpec(Parameters, frozen=True):
    """User VCL is apart from the rest: it changes without any change of a pod."""

    user_vcl_config_map_ref: ConfigMapRef | None = field(default=None, name="userVCLConfigMapRef")

    def without_user_vcl(self) -> Parameters:
        """Return the rest."""
        return Parameters(**{name: getattr(self, name) for name in Parameters.__struct_fields__})


class GatewayClassParameters(Object, frozen=True):
    kind: ClassVar[str] = "GatewayClassParameters"
    namespaced: ClassVar[bool] = False
    spec: ParametersSpec = ParametersSpec()
