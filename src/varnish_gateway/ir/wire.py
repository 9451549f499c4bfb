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

from msgspec import Struct


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
    them is invalid. A regex in such a path ranks below every other path.
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

    name: str
    socket: str  # "{proto}-{port}", or "*" for every socket
    port: int = 0
    scheme: Literal["http", "https"] = "http"
    hostname: str = "*"  # lower case; "*", "*.example.com" or "www.example.com"


class RequestRules(Wire, frozen=True):
    """What holds for every request: whom the gateway believes about clients, and which paths it accepts.

    Of ``trustedHops`` and ``trustedRanges`` one is set at most. Without either, forwarding headers stay as
    they are, except that none is believed and ``Forwarded`` is removed.
    """

    trusted_hops: int | None = None
    trusted_ranges: tuple[str, ...] = ()  # "10.0.0.0/8"
    merge_slashes: bool = False
    reject: tuple[Literal["%2F", "%5C", "..;"], ...] = ()


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
