"""gateway.varnish-software.com: GatewayClassParameters, VarnishCachePolicy, VarnishCacheInvalidation."""

from typing import Any, ClassVar, Literal

from msgspec import field

from varnish_gateway.api import gateway_networking
from varnish_gateway.api.gateway_networking import PolicyTarget
from varnish_gateway.api.meta import Key, Object, Read

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


class InvalidationMethods(Read, frozen=True, omit_defaults=True):
    """The addresses whose PURGE, BAN and PURGEKEYS requests the gateway carries out. Without any it forwards these."""

    allowed_source_ranges: tuple[str, ...] = ()


class InvalidationParameters(Read, frozen=True, omit_defaults=True):
    """Who may invalidate, beside those with a token."""

    methods: InvalidationMethods = InvalidationMethods()


class Http2Parameters(Read, frozen=True, omit_defaults=True):
    """HTTP/2 of clients; HTTPS listeners always have it."""

    plaintext: bool = False


class SharesParameters(Read, frozen=True, omit_defaults=True):
    """What the requests of one namespace, route or backend may hold; where absent, as the wire format says."""

    namespace: int | None = None
    route: int | None = None
    backend: int | None = None
    web_sockets: int | None = None
    route_connections: int | None = None
    backend_connections: int | None = None


class StorageParameters(Read, frozen=True, omit_defaults=True):
    """Where the cache is: in memory, or in a file on a volume. The size of a file has no default."""

    type: str = "Memory"
    size: str = ""  # an amount such as "4Gi"; in memory also a share such as "60%"
    volume: str = ""  # of extraVolumes; a file without one gets an emptyDir


class MetricsParameters(Read, frozen=True, omit_defaults=True):
    """What /metrics has of each pod."""

    cached_routes: int = 200  # pairs of a route and a cache policy


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
    invalidation: InvalidationParameters = InvalidationParameters()
    shares: SharesParameters = SharesParameters()
    listener_sets: ListenerSetParameters = ListenerSetParameters()
    storage: StorageParameters = StorageParameters()
    http2: Http2Parameters = Http2Parameters()
    metrics: MetricsParameters = MetricsParameters()


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


# -- VarnishCachePolicy ----------------------------------------------------------------


class CachePolicyTarget(PolicyTarget, frozen=True, kw_only=True):
    """A Gateway or ListenerSet, a listener of one, an HTTPRoute, or a rule of one by its name.

    ``namespace`` can only be the policy's own. It is read so that a policy that names another one can say so.
    """

    group: str = gateway_networking.GROUP
    namespace: str | None = None


class StatusTTLSpec(Read, frozen=True):
    """``status`` is a status such as "404" or a class such as "5xx"."""

    status: str
    ttl: str


class QueryParametersSpec(Read, frozen=True):
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None


class CacheKeySpec(Read, frozen=True):
    headers: tuple[str, ...] | None = None
    cookies: tuple[str, ...] | None = None
    query_parameters: QueryParametersSpec | None = None
    scheme: bool | None = None
    listener: bool | None = None


class BypassHeaderSpec(Read, frozen=True):
    name: str
    value_regex: str | None = None


class BypassSpec(Read, frozen=True):
    headers: tuple[BypassHeaderSpec, ...] | None = None
    cookies: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None


class RevalidationSpec(Read, frozen=True):
    per_object: int | None = None
    per_route: int | None = None


class CacheFields(Read, frozen=True):
    """What a policy or a preset says; a field that is None says nothing. Durations are texts such as "1h30m"."""

    default_ttl: str | None = field(default=None, name="defaultTTL")
    forced_ttl: str | None = field(default=None, name="forcedTTL")
    unsafe_ignore_no_store_and_private: bool | None = None
    status_ttls: tuple[StatusTTLSpec, ...] | None = field(default=None, name="statusTTLs")
    heuristic_percent: int | None = None
    grace: str | None = None
    stale_while_revalidate: str | None = None
    stale_if_error: str | None = None
    keep: str | None = None
    jitter_percent: int | None = None
    hit_for_miss: str | None = None
    cache_key: CacheKeySpec | None = None
    bypass: BypassSpec | None = None
    set_cookie: str | None = None
    request_cookies: str | None = None
    ignore_request_directives: bool | None = None
    revalidation: RevalidationSpec | None = None
    exact_vary: bool | None = None
    tag_headers: tuple[str, ...] | None = None
    cache_status: str | None = None
    max_object_size: int | None = None
    gzip: bool | None = None
    esi: bool | None = None


class VarnishCachePolicySpec(CacheFields, frozen=True, kw_only=True):
    """The fields of the policy itself count before those of its presets."""

    target_ref: CachePolicyTarget
    presets: tuple[str, ...] = ()


class VarnishCachePolicy(Object, frozen=True):
    kind: ClassVar[str] = "VarnishCachePolicy"
    spec: VarnishCachePolicySpec


# -- VarnishCacheInvalidation ----------------------------------------------------------


class InvalidatedGateway(Read, frozen=True):
    name: str
    namespace: str = ""  # default is that of the invalidation


class VarnishCacheInvalidationSpec(Read, frozen=True):
    """``type`` says what paths are: "Purge" for exact ones, "Ban" for regular expressions."""

    gateway_ref: InvalidatedGateway
    type: str = "Purge"
    mode: str = "Hard"
    hostname: str = ""
    paths: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    everything: bool = False
    ttl: str = "1h"


class VarnishCacheInvalidation(Object, frozen=True):
    kind: ClassVar[str] = "VarnishCacheInvalidation"
    spec: VarnishCacheInvalidationSpec

    @property
    def gateway(self) -> Key:
        namespace = self.spec.gateway_ref.namespace or self.metadata.namespace
        return Key(gateway_networking.Gateway.kind, namespace, self.spec.gateway_ref.name)
