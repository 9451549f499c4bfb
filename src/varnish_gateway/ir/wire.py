"""The wire format: what travels from translation to the chaperone and on to ghost.

Six documents, each JSON:

- ``Routing``: one shard of the routes of a Gateway. Shard 0 also carries the listeners and request rules.
- ``Index``: ``shards.json``, which names the shards of a large Gateway in a cluster.
- ``Fresh``: ``fresh.json``, which has the newest changes of shards beside that index.
- ``Endpoints``: one shard of pools, each with the addresses that serve it.
- ``Manifest``: ``ghost.json``, which names the shard files that are in force.
- ``TlsDocument``: ``tls.json``, which names the certificates that TLS is terminated with.

This module is the only definition. ``docs/reference/schema/*.json`` is generated from it, and the
Rust side decodes every golden file with unknown fields denied. Absent means default;
defaults are left out when encoding, so that a small gateway stays readable.
"""

from typing import Literal

from msgspec import Struct, field, json


class Wire(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    """Base of every wire type."""


# -- matches ---------------------------------------------------------------------------


class PathMatch(Wire, frozen=True):
    """How the path is compared. A prefix is stored without its trailing slash ("/" stays)."""

    type: Literal["exact", "prefix", "regex"]
    value: str


class ValueMatch(Wire, frozen=True):
    """A header or a query parameter. Header names are lower case."""

    name: str
    value: str
    type: Literal["exact", "regex"] = "exact"


class Match(Wire, frozen=True):
    """Everything named here must hold. Without a path it is the prefix "/"."""

    path: PathMatch = PathMatch(type="prefix", value="/")
    method: str | None = None
    headers: tuple[ValueMatch, ...] = ()
    query: tuple[ValueMatch, ...] = ()


# -- filters ---------------------------------------------------------------------------


class Header(Wire, frozen=True):
    name: str
    value: str


class HeaderModifier(Wire, frozen=True):
    """Carried out in the order set, add, remove."""

    set: tuple[Header, ...] = ()
    add: tuple[Header, ...] = ()
    remove: tuple[str, ...] = ()


class PathModifier(Wire, frozen=True):
    """Replaces the whole path ("full") or the prefix that the rule matched ("prefix")."""

    type: Literal["full", "prefix"]
    value: str


class Redirect(Wire, frozen=True):
    """Absent parts come from the request; port as the Gateway API says."""

    scheme: str | None = None
    hostname: str | None = None
    port: int | None = None
    path: PathModifier | None = None
    status: Literal[301, 302, 303, 307, 308] = 302


class Rewrite(Wire, frozen=True):
    hostname: str | None = None
    path: PathModifier | None = None


class Filters(Wire, frozen=True):
    """What happens to a request and its response, on a rule or on one of its backends."""

    request: HeaderModifier | None = None
    response: HeaderModifier | None = None
    rewrite: Rewrite | None = None


class Cors(Wire, frozen=True):
    """Who may read answers from pages of other origins; ghost answers preflights itself.

    ``origins`` are lower case: "*", or scheme://host[:port] whose host may be "*" or begin
    with "*.". "*" alone in any other list is everything too.
    """

    origins: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    expose: tuple[str, ...] = ()
    credentials: bool = False
    max_age: int = 5  # seconds


# -- time-outs and retries -------------------------------------------------------------


class Timeouts(Wire, frozen=True):
    """Milliseconds for everything that a request takes, and for one attempt of it.

    0 is no limit, not even varnishd's own; where both are absent, varnishd's hold.
    """

    request: int | None = None
    backend_request: int | None = None


class Retry(Wire, frozen=True):
    """How often, and how many milliseconds later at least, an attempt is repeated.

    That is after an answer with one of ``codes``, a connection error or a time-out.
    """

    codes: tuple[int, ...] = ()
    attempts: int = 1
    backoff: int = 25


# -- cache policies --------------------------------------------------------------------


class StatusTTL(Wire, frozen=True):
    """The lifetime of responses with one status ("404") or of one class ("5xx"); 0 is none."""

    status: str
    ttl: int


class QueryParameters(Wire, frozen=True):
    """Globs over names: only those that ``include`` has count, or all but those that ``exclude`` has."""

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None


class CacheKey(Wire, frozen=True):
    """What tells objects apart, beside rule, host and path."""

    headers: tuple[str, ...] = ()
    cookies: tuple[str, ...] = ()
    query_parameters: QueryParameters = QueryParameters()
    scheme: bool = True
    listener: bool = True


class BypassHeader(Wire, frozen=True):
    """A header whose presence makes a request pass, or a line that ``valueRegex`` matches as a whole."""

    name: str
    value_regex: str | None = None


class Bypass(Wire, frozen=True):
    """Requests that pass the cache meet one of these. Names of cookies are globs."""

    headers: tuple[BypassHeader, ...] = ()
    cookies: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()


class Revalidation(Wire, frozen=True):
    """How many validations clients may force in a minute; beyond that they get what is stored."""

    per_object: int = 60
    per_route: int = 6000


TagHeader = Literal[
    "Surrogate-Key", "Cache-Tag", "xkey", "Cache-Groups", "Cache-Tags", "X-Cache-Tags", "X-Magento-Tags"
]


class CachePolicy(Wire, frozen=True):
    """What the cache does with the responses of a rule; durations are milliseconds.

    A policy of a listener holds for every rule without one of its own. ``off`` stores and serves nothing from the
    cache: the user's policy is invalid, and it still replaces a less specific one.
    One of ``defaultTTL`` and ``forcedTTL`` is set, unless it is off; of ``grace`` and ``staleWhileRevalidate``, one at
    most. Absent ``keep`` is an hour, absent ``hitForMiss`` two minutes.
    """

    name: str = ""  # "namespace/name"
    off: bool = False
    default_ttl: int | None = field(default=None, name="defaultTTL")
    forced_ttl: int | None = field(default=None, name="forcedTTL")
    unsafe_ignore_no_store_and_private: bool = False
    status_ttls: tuple[StatusTTL, ...] = field(default=(), name="statusTTLs")
    heuristic_percent: int = 0
    grace: int | None = None
    stale_while_revalidate: int | None = None
    stale_if_error: int | None = None
    keep: int | None = None
    jitter_percent: int = 0
    hit_for_miss: int | None = None
    cache_key: CacheKey = CacheKey()
    bypass: Bypass = Bypass()
    set_cookie: Literal["doNotStore", "remove"] = "doNotStore"
    request_cookies: Literal["explicit", "remove", "ignore"] = "explicit"
    ignore_request_directives: bool = False
    revalidation: Revalidation = Revalidation()
    exact_vary: bool = False
    tag_headers: tuple[TagHeader, ...] = ()
    cache_status: Literal["off", "on", "trusted"] = "off"
    max_object_size: int | None = None  # bytes
    gzip: bool = False
    esi: bool = False


# -- routes ----------------------------------------------------------------------------


class Backend(Wire, frozen=True):
    """One backendRef: its share of the rule's weight goes to a pool, or to a plain status.

    ``service`` ("namespace/name") with ``port`` names the pool ``namespace/name:port``.
    ``portName`` and ``external`` are for the chaperone, which finds the endpoints: the name of the
    Service's port as EndpointSlices carry it, or the host name of an ExternalName Service.
    ``status`` stands instead of a service where the reference can't be resolved.
    """

    weight: int = 1
    service: str | None = None
    port: int | None = None
    port_name: str = ""
    external: str | None = None
    status: int | None = None
    filters: Filters | None = None


class Rule(Wire, frozen=True):
    """One rule of a route: a redirect, or a plain status, or a choice of backends.

    The matches of an ``approximate`` rule are what is left of those that the user wrote, because a part of
    them is invalid. A regex in such a path ranks below every other path. So does one of a rule with the
    status 500: operators of earlier versions don't mark what is left of invalid matches.
    """

    name: str | None = None
    matches: tuple[Match, ...] = (Match(),)
    filters: Filters | None = None
    redirect: Redirect | None = None
    status: int | None = None
    backends: tuple[Backend, ...] = ()
    timeouts: Timeouts | None = None
    retry: Retry | None = None
    cors: Cors | None = None
    approximate: bool = False
    cache: CachePolicy | None = None


class Attachment(Wire, frozen=True):
    """A listener that the route attaches to, and the route's hostnames that meet its own ("*" is any)."""

    listener: str
    hostnames: tuple[str, ...] = ("*",)


class Route(Wire, frozen=True):
    """One route with everything that decides its precedence."""

    namespace: str
    name: str
    attachments: tuple[Attachment, ...]
    rules: tuple[Rule, ...]
    created: int = 0  # creationTimestamp in seconds since 1970; the older one wins a tie


class Listener(Wire, frozen=True):
    """A listener of the Gateway, on a varnishd socket that several listeners may share."""

    name: str  # "{namespace}/{ListenerSet}/{name}" for one of a ListenerSet
    socket: str  # "{proto}-{port}", or "*" for every socket
    port: int = 0
    scheme: Literal["http", "https"] = "http"
    hostname: str = "*"  # lower case; "*", "*.example.com" or "www.example.com"
    cache: CachePolicy | None = None

    @property
    def listener_set(self) -> tuple[str, str, str] | None:
        """Namespace and name of its ListenerSet, and its name there; None for one of the Gateway itself."""
        namespace, _, rest = self.name.partition("/")
        name, _, section = rest.partition("/")
        return (namespace, name, section) if section else None


class WorkerShares(Wire, frozen=True):
    """What the requests of one namespace, route or backend may hold at the same time, so that the others go on.

    A percentage is one of the workers that others leave, so that the sum never exceeds the workers. A route that
    holds more than ``webSockets`` gets no further WebSocket. Connections are those to endpoints, in one pod.
    """

    namespace: int = 75
    route: int = 50
    backend: int = 70
    web_sockets: int = 25
    route_connections: int | None = None
    backend_connections: int | None = None


class RequestRules(Wire, frozen=True):
    """What holds for every request: whom the gateway believes about clients, which paths it accepts, what it may hold.

    Of ``trustedHops`` and ``trustedRanges`` one is set at most. Without either, forwarding headers stay as
    they are, except that none is believed and ``Forwarded`` is removed.
    """

    trusted_hops: int | None = None
    trusted_ranges: tuple[str, ...] = ()  # "10.0.0.0/8"
    merge_slashes: bool = False
    reject: tuple[Literal["%2F", "%5C", "..;"], ...] = ()
    shares: WorkerShares | None = None
    purge_ranges: tuple[str, ...] = ()  # "10.0.0.0/8": whose PURGE, BAN and PURGEKEYS requests are carried out


class Routing(Wire, frozen=True):
    """One shard. Of several the first has the listeners, a route is in 1 + crc32("namespace/name") % (shards - 1)."""

    version: Literal[2]
    shard: int = 0
    shards: int = 1
    requests: RequestRules | None = None
    listeners: tuple[Listener, ...] = ()
    routes: tuple[Route, ...] = ()


class Index(Wire, frozen=True):
    """The shards that belong together, each by the hash of its text; shard 0 lies beside the index and is "" here."""

    version: Literal[2]
    shards: tuple[str, ...]


class Patch(Wire, frozen=True):
    """What makes a shard's text with the hash ``before`` into the one that the index names."""

    shard: int
    before: str
    routes: tuple[Route, ...] = ()
    gone: tuple[str, ...] = ()  # "namespace/name"


class Fresh(Wire, frozen=True):
    """The newest changes: a reader that has the former texts need not read the shards."""

    version: Literal[2]
    patches: tuple[Patch, ...] = ()


# -- endpoints -------------------------------------------------------------------------


class Endpoint(Wire, frozen=True):
    address: str  # IPv4 or IPv6 address, without brackets
    port: int


class Endpoints(Wire, frozen=True):
    """Pools by their name ("namespace/name:port"). An empty or absent pool answers 503."""

    version: Literal[2]
    pools: dict[str, tuple[Endpoint, ...]] = {}


class Manifest(Wire, frozen=True):
    """ghost.json: shard files beside it, named by content, so an unchanged name is unchanged content."""

    version: Literal[2]
    id: str  # names this configuration; reload and readiness report it
    routing: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()


# -- TLS -------------------------------------------------------------------------------


class Certificate(Wire, frozen=True):
    """A certificate with its chain and its key (PEM), and the server names that it is for.

    ``names`` are hostnames of listeners, "www.example.com", "*.example.com", or "*" for any, and the
    certificate's own within them.
    Where several certificates of a port share a name, the client's abilities decide.
    """

    file: str  # named by content
    names: tuple[str, ...]


class ClientValidation(Wire, frozen=True):
    """Client certificates have to be signed by one of these authorities.

    ``insecure`` lets every client in, whatever it shows.
    """

    file: str  # PEM, named by content
    insecure: bool = False


class TlsPort(Wire, frozen=True):
    """A port with TLS termination. The first certificate is for clients that name no known server."""

    port: int
    certificates: tuple[Certificate, ...]
    clients: ClientValidation | None = None


class TlsDocument(Wire, frozen=True):
    """tls.json: files beside it, named by content, so an unchanged name is unchanged content."""

    version: Literal[2]
    ports: tuple[TlsPort, ...] = ()


_encode = json.Encoder().encode


def encoded_size(value: object) -> int:
    """Return how many bytes a value has on the wire."""
    return len(_encode(value))
