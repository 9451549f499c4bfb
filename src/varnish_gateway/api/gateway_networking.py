"""gateway.networking.k8s.io: GatewayClass, Gateway, ListenerSet, HTTPRoute, ReferenceGrant, BackendTLSPolicy.

Enumerations are plain strings here: a value that we don't know has to become a condition
on its object, so it must survive decoding.
"""

from typing import Any, ClassVar

from msgspec import field

from varnish_gateway.api.meta import Key, LabelSelector, Metadata, Object, Read

GROUP = "gateway.networking.k8s.io"
INVALIDATION_TOKENS = "gateway.varnish-software.com/invalidation-tokens"
"""The annotation of a Gateway that names the Secret with the tokens of those who may invalidate."""

# -- GatewayClass ----------------------------------------------------------------------


class ParametersRef(Read, frozen=True):
    group: str
    kind: str
    name: str
    namespace: str | None = None


class GatewayClassSpec(Read, frozen=True):
    controller_name: str
    parameters_ref: ParametersRef | None = None


class GatewayClass(Object, frozen=True):
    kind: ClassVar[str] = "GatewayClass"
    namespaced: ClassVar[bool] = False
    spec: GatewayClassSpec


# -- Gateway ---------------------------------------------------------------------------


class RouteGroupKind(Read, frozen=True):
    kind: str
    group: str = GROUP


class RouteNamespaces(Read, frozen=True):
    from_: str = field(default="Same", name="from")
    selector: LabelSelector | None = None


class AllowedRoutes(Read, frozen=True):
    namespaces: RouteNamespaces = RouteNamespaces()
    kinds: tuple[RouteGroupKind, ...] = ()


class ObjectReference(Read, frozen=True):
    """An object with a certificate. References to those of authorities always name group and kind."""

    name: str
    group: str = ""
    kind: str = "Secret"
    namespace: str | None = None


class ListenerTls(Read, frozen=True):
    mode: str = "Terminate"
    certificate_refs: tuple[ObjectReference, ...] = ()
    options: dict[str, str] = field(default_factory=dict)


class ListenerSpec(Read, frozen=True):
    name: str
    port: int
    protocol: str
    hostname: str | None = None
    tls: ListenerTls | None = None
    allowed_routes: AllowedRoutes = AllowedRoutes()


class GatewayAddress(Read, frozen=True):
    type: str = "IPAddress"
    value: str = ""


class Infrastructure(Read, frozen=True):
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    parameters_ref: ParametersRef | None = None


class ListenerNamespaces(RouteNamespaces, frozen=True):
    from_: str = field(default="None", name="from")


class AllowedListeners(Read, frozen=True):
    namespaces: ListenerNamespaces = ListenerNamespaces()


class FrontendValidation(Read, frozen=True):
    ca_certificate_refs: tuple[ObjectReference, ...] = ()
    mode: str = "AllowValidOnly"


class FrontendTls(Read, frozen=True):
    validation: FrontendValidation | None = None


class FrontendPort(Read, frozen=True):
    port: int
    tls: FrontendTls = FrontendTls()


class Frontend(Read, frozen=True):
    """What clients have to show. A port of its own counts in place of the default."""

    default: FrontendTls = FrontendTls()
    per_port: tuple[FrontendPort, ...] = ()

    def validation(self, port: int) -> FrontendValidation | None:
        return next((one.tls for one in self.per_port if one.port == port), self.default).validation


class GatewayTls(Read, frozen=True):
    """``backend`` is not carried out yet: that it is there is enough to say so."""

    frontend: Frontend = Frontend()
    backend: dict[str, Any] | None = None


class GatewaySpec(Read, frozen=True):
    gateway_class_name: str
    listeners: tuple[ListenerSpec, ...] = ()
    allowed_listeners: AllowedListeners = AllowedListeners()
    addresses: tuple[GatewayAddress, ...] = ()
    infrastructure: Infrastructure | None = None
    tls: GatewayTls = GatewayTls()


class GatewayAnnotations(Read, frozen=True):
    """Those that we read. ``invalidation_tokens`` names a Secret in the Gateway's namespace."""

    invalidation_tokens: str = field(default="", name=INVALIDATION_TOKENS)


class GatewayMetadata(Metadata, frozen=True):
    annotations: GatewayAnnotations = GatewayAnnotations()


class Gateway(Object, frozen=True):
    kind: ClassVar[str] = "Gateway"
    metadata: GatewayMetadata
    spec: GatewaySpec


# -- ListenerSet -----------------------------------------------------------------------


class ParentGateway(Read, frozen=True):
    name: str
    group: str = GROUP
    kind: str = "Gateway"
    namespace: str | None = None


class ListenerSetSpec(Read, frozen=True):
    parent_ref: ParentGateway
    listeners: tuple[ListenerSpec, ...] = ()


class ListenerSet(Object, frozen=True):
    """Listeners that a Gateway has beside its own."""

    kind: ClassVar[str] = "ListenerSet"
    spec: ListenerSetSpec

    @property
    def gateway(self) -> Key:
        """The Gateway that it is for."""
        ref = self.spec.parent_ref
        return Key(Gateway.kind, ref.namespace or self.metadata.namespace, ref.name)


# -- HTTPRoute -------------------------------------------------------------------------


class ParentReference(Read, frozen=True):
    name: str
    group: str = GROUP
    kind: str = "Gateway"
    namespace: str | None = None
    section_name: str | None = None
    port: int | None = None


class HTTPPathMatch(Read, frozen=True):
    type: str = "PathPrefix"
    value: str = "/"


class HTTPValueMatch(Read, frozen=True):
    """A header or a query parameter."""

    name: str
    value: str
    type: str = "Exact"


class RouteMatch(Read, frozen=True):
    path: HTTPPathMatch = HTTPPathMatch()
    headers: tuple[HTTPValueMatch, ...] = ()
    query_params: tuple[HTTPValueMatch, ...] = ()
    method: str | None = None


class HTTPHeader(Read, frozen=True):
    name: str
    value: str


class HeaderFilter(Read, frozen=True):
    set: tuple[HTTPHeader, ...] = ()
    add: tuple[HTTPHeader, ...] = ()
    remove: tuple[str, ...] = ()


class HTTPPathModifier(Read, frozen=True):
    type: str
    replace_full_path: str | None = None
    replace_prefix_match: str | None = None


class RequestRedirect(Read, frozen=True):
    scheme: str | None = None
    hostname: str | None = None
    path: HTTPPathModifier | None = None
    port: int | None = None
    status_code: int = 302


class UrlRewrite(Read, frozen=True):
    hostname: str | None = None
    path: HTTPPathModifier | None = None


class HTTPCORSFilter(Read, frozen=True):
    allow_origins: tuple[str, ...] = ()
    allow_methods: tuple[str, ...] = ()
    allow_headers: tuple[str, ...] = ()
    expose_headers: tuple[str, ...] = ()
    allow_credentials: bool | None = None
    max_age: int = 5


class RouteFilter(Read, frozen=True):
    """The fields of filters that we don't carry out yet are not read: their type is enough to say so."""

    type: str
    request_header_modifier: HeaderFilter | None = None
    response_header_modifier: HeaderFilter | None = None
    request_redirect: RequestRedirect | None = None
    url_rewrite: UrlRewrite | None = None
    cors: HTTPCORSFilter | None = None


class BackendRef(Read, frozen=True):
    name: str
    group: str = ""
    kind: str = "Service"
    namespace: str | None = None
    port: int | None = None
    weight: int = 1
    filters: tuple[RouteFilter, ...] = ()


class HTTPRouteTimeouts(Read, frozen=True):
    """Durations as GEP-2257 writes them."""

    request: str | None = None
    backend_request: str | None = None


class HTTPRouteRetry(Read, frozen=True):
    codes: tuple[int, ...] = ()
    attempts: int | None = None
    backoff: str | None = None


class RouteRule(Read, frozen=True):
    name: str | None = None
    matches: tuple[RouteMatch, ...] = ()
    filters: tuple[RouteFilter, ...] = ()
    backend_refs: tuple[BackendRef, ...] = ()
    timeouts: HTTPRouteTimeouts | None = None
    retry: HTTPRouteRetry | None = None
    session_persistence: dict[str, Any] | None = None


class HTTPRouteSpec(Read, frozen=True):
    parent_refs: tuple[ParentReference, ...] = ()
    hostnames: tuple[str, ...] = ()
    rules: tuple[RouteRule, ...] = (RouteRule(),)


class HTTPRoute(Object, frozen=True):
    kind: ClassVar[str] = "HTTPRoute"
    spec: HTTPRouteSpec


# -- ReferenceGrant --------------------------------------------------------------------


class GrantFrom(Read, frozen=True):
    group: str
    kind: str
    namespace: str


class GrantTo(Read, frozen=True):
    group: str
    kind: str
    name: str | None = None


class ReferenceGrantSpec(Read, frozen=True):
    from_: tuple[GrantFrom, ...] = field(default=(), name="from")
    to: tuple[GrantTo, ...] = ()


class ReferenceGrant(Object, frozen=True):
    kind: ClassVar[str] = "ReferenceGrant"
    spec: ReferenceGrantSpec


# -- BackendTLSPolicy ------------------------------------------------------------------


class PolicyTarget(Read, frozen=True):
    """An object in the namespace of the policy; of a Service a section is a port, by its name."""

    group: str
    kind: str
    name: str
    section_name: str = ""


class BackendTLSPolicySpec(Read, frozen=True):
    """What a policy requires of a certificate is not read: TLS to backends is not supported yet."""

    target_refs: tuple[PolicyTarget, ...] = ()


class BackendTLSPolicy(Object, frozen=True):
    kind: ClassVar[str] = "BackendTLSPolicy"
    spec: BackendTLSPolicySpec
