"""Small worlds of objects for the properties of translation.

Few names and few values, so that objects refer to each other, conflict and repair each
other often.
"""

from hypothesis import strategies as st

from support import certificates
from support.builders.objects import GATEWAY_API, VARNISH_API, backend_tls, obj
from varnish_gateway import api

NAMESPACES = ("default", "team")
HOSTNAMES = ("a.example.com", "b.example.com", "*.example.com", "*.com", "example.org")
CONCRETE = ("a.example.com", "b.example.com", "c.example.com", "d.com", "example.org", "example.net")
"""Hosts that tell every two of HOSTNAMES apart."""
INVALID_REGEX = "("

Changes = dict[api.Key, api.Object | None]


def without_none(**fields) -> dict:
    return {name: value for name, value in fields.items() if value is not None}


def mostly(usual: object, *others: object) -> st.SearchStrategy:
    return st.sampled_from((usual,) * 3 * max(1, len(others)) + others)


namespaces = st.sampled_from(NAMESPACES)
maybe_hostname = mostly(None, *HOSTNAMES)
ages = st.sampled_from(("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"))

classes = st.builds(
    lambda name, controller, parameters: obj(
        "GatewayClass",
        name,
        spec=without_none(
            controllerName=controller,
            parametersRef={"group": "gateway.varnish-software.com", "kind": "GatewayClassParameters", "name": "params"}
            if parameters
            else None,
        ),
    ),
    st.sampled_from(("varnish", "other")),
    st.sampled_from(("varnish-software.com/gateway", "varnish-software.com/gateway", "example.com/other")),
    st.booleans(),
)
parameters = st.builds(
    lambda arguments: obj(
        "GatewayClassParameters",
        "params",
        group="gateway.varnish-software.com",
        spec={
            "userVCLConfigMapRef": {"name": "vcl", "namespace": "default"},
            "varnishdExtraArgs": arguments,
        },
    ),
    st.sampled_from(([], ["-p", "x=1"], ["-n", "x"])),
)
config_maps = st.builds(
    lambda data: obj("ConfigMap", "vcl", "default", group="", data=data),
    st.sampled_from(({}, {"user.vcl": "one"}, {"user.vcl": "two"})),
)
ROOT = certificates.authority("root")
CERTIFIED = [ROOT.issue(name) for name in ("one", "two")]
SECRETS = (*(one.secret("", "")["data"] for one in CERTIFIED), {"tls.crt": "eA==", "tls.key": "eA=="}, {})
secrets = st.builds(
    lambda name, namespace, data, kind: obj("Secret", name, namespace, group="", data=data, type=kind),
    st.sampled_from(("cert", "other")),
    namespaces,
    mostly(*SECRETS),
    mostly("kubernetes.io/tls", "Opaque"),
)
authorities = st.builds(
    lambda namespace, data: obj("ConfigMap", "ca", namespace, group="", data=data),
    namespaces,
    mostly({"ca.crt": ROOT.own.decode()}, {"ca.crt": CERTIFIED[0].own.decode()}, {"ca.crt": "x"}, {}),
)
certificate_refs = st.builds(
    lambda name, namespace: without_none(name=name, namespace=namespace),
    st.sampled_from(("cert", "other")),
    mostly(None, "team"),
)
validations = st.builds(
    lambda namespace, mode: {
        "validation": {
            "mode": mode,
            "caCertificateRefs": [without_none(group="", kind="ConfigMap", name="ca", namespace=namespace)],
        }
    },
    mostly(None, "team"),
    mostly("AllowValidOnly", "AllowInsecureFallback"),
)
frontends = st.builds(
    lambda default, own: {"default": default, "perPort": [{"port": 81, "tls": own}]},
    mostly({}, {}) | validations,
    mostly({}, {}) | validations,
)
listeners = st.builds(
    lambda name, port, protocol, hostname, source, refs: (
        {
            "name": name,
            "protocol": protocol,
            "port": port,
            "tls": {"certificateRefs": refs},
            "allowedRoutes": {
                "namespaces": {"from": source, "selector": {"matchLabels": {"tier": "web"}}},
            },
        }
        | without_none(hostname=hostname)
    ),
    st.sampled_from(("one", "two", "three")),
    st.sampled_from((80, 80, 81, 81, 82, 82, 83, 83, 6082)),
    mostly("HTTP", "HTTPS", "HTTPS", "TCP"),
    maybe_hostname,
    st.sampled_from(("All", "All", "Same", "Selector")),
    st.lists(certificate_refs, max_size=2),
)
gateways = st.builds(
    lambda name, class_name, ports, source, generation, created, frontend: obj(
        "Gateway",
        name,
        "default",
        metadata={"generation": generation, "creationTimestamp": created},
        spec={
            "gatewayClassName": class_name,
            "listeners": ports,
            "allowedListeners": {"namespaces": {"from": source, "selector": {"matchLabels": {"tier": "web"}}}},
            "tls": {"frontend": frontend},
        },
    ),
    st.sampled_from(("gw", "second")),
    mostly("varnish", "other"),
    st.lists(listeners, min_size=1, max_size=3, unique_by=lambda listener: listener["name"]),
    mostly("All", "Same", "Selector", "None"),
    st.integers(1, 3),
    ages,
    frontends,
)
listener_sets = st.builds(
    lambda name, namespace, parent, entries, created: obj(
        "ListenerSet",
        name,
        namespace,
        metadata={"creationTimestamp": created},
        spec={"parentRef": {"name": parent, "namespace": "default"}, "listeners": entries},
    ),
    st.sampled_from(("s1", "s2", "s3")),
    namespaces,
    mostly("gw", "second", "gone"),
    st.lists(listeners, min_size=1, max_size=3, unique_by=lambda listener: listener["name"]),
    ages,
)
gateway_refs = st.builds(
    lambda name, section, port: without_none(name=name, namespace="default", sectionName=section, port=port),
    mostly("gw", "second", "gone"),
    mostly(None, "one", "two"),
    mostly(None, 80),
)
set_refs = st.builds(
    lambda name, namespace, section, port: without_none(
        kind="ListenerSet", name=name, namespace=namespace, sectionName=section, port=port
    ),
    st.sampled_from(("s1", "s2", "s3")),
    namespaces,
    mostly(None, "one", "two"),
    mostly(None, 80),
)
parent_refs = st.one_of(gateway_refs, gateway_refs, set_refs)
backend_refs = st.builds(
    lambda name, namespace, port, weight: without_none(name=name, namespace=namespace, port=port, weight=weight),
    mostly("web", "api"),
    st.sampled_from((None, None, *NAMESPACES)),
    mostly(80, 81),
    st.integers(0, 2),
)
rules = st.builds(
    lambda refs, path, *extra: {"matches": [{"path": path}], "backendRefs": refs} | extra[0] | extra[1],
    st.lists(backend_refs, min_size=1, max_size=3) | st.just([]),
    mostly(
        {"value": "/"},
        {"type": "Exact", "value": "/x"},
        *({"type": "RegularExpression", "value": value} for value in (INVALID_REGEX, "/a+", "/b+")),
    ),
    mostly({}, {"sessionPersistence": {}}),
    mostly({}, {"name": "named"}, {"name": "other"}),
)
routes = st.builds(
    lambda name, namespace, parents, hostnames, ruleset, created: obj(
        "HTTPRoute",
        name,
        namespace,
        metadata={"creationTimestamp": created},
        spec={"parentRefs": parents, "hostnames": hostnames, "rules": ruleset},
    ),
    st.sampled_from(("r1", "r2", "r3")),
    namespaces,
    st.lists(parent_refs, min_size=1, max_size=3),
    st.just([]) | st.lists(st.sampled_from(HOSTNAMES), max_size=2),
    st.lists(rules, min_size=1, max_size=2),
    ages,
)
services = st.builds(
    lambda name, namespace, spec: obj("Service", name, namespace, group="", spec=spec),
    st.sampled_from(("web", "api")),
    namespaces,
    st.sampled_from(
        (
            {"ports": [{"port": 80}]},
            {"ports": [{"port": 80, "name": "http"}, {"port": 81, "appProtocol": "https"}]},
            {"type": "ExternalName", "externalName": "example.org"},
        )
    ),
)
grants = st.builds(
    lambda name, namespace, source, target, kinds: obj(
        "ReferenceGrant",
        name,
        namespace,
        spec={
            "from": [{"group": GATEWAY_API, "kind": kinds[0], "namespace": source}],
            "to": [without_none(group="", kind=kinds[1], name=target)],
        },
    ),
    st.sampled_from(("g1", "g2")),
    namespaces,
    namespaces,
    st.none() | st.sampled_from(("web", "api")),
    st.sampled_from(
        (("HTTPRoute", "Service"), ("Gateway", "Secret"), ("ListenerSet", "Secret"), ("Gateway", "ConfigMap"))
    ),
)
policies = st.builds(
    lambda name, namespace, target, section: backend_tls(
        name, namespace, service=target, **without_none(sectionName=section)
    ),
    st.sampled_from(("p1", "p2")),
    namespaces,
    st.sampled_from(("web", "api")),
    st.sampled_from((None, "http", "absent")),
)
cache_targets = st.one_of(
    st.builds(
        lambda name, section: without_none(kind="HTTPRoute", name=name, sectionName=section),
        st.sampled_from(("r1", "r2", "r3", "gone")),
        st.sampled_from((None, "named", "absent")),
    ),
    st.builds(
        lambda name, section: without_none(kind="Gateway", name=name, sectionName=section),
        st.sampled_from(("gw", "second", "gone")),
        st.sampled_from((None, "one", "two")),
    ),
    st.builds(
        lambda name, section: without_none(kind="ListenerSet", name=name, sectionName=section),
        st.sampled_from(("s1", "s2")),
        st.sampled_from((None, "one", "two")),
    ),
    st.just({"kind": "Service", "name": "web"}),
    st.just({"kind": "Gateway", "name": "gw", "namespace": "other"}),
)
cache_fields = st.sampled_from(
    (
        {"defaultTTL": "1m"},
        {"forcedTTL": "1m", "grace": "10s"},
        {"presets": ["static"]},
        {"defaultTTL": "1m", "bypass": {"headers": [{"name": "x-debug", "valueRegex": "on+"}]}},
        {"defaultTTL": "1m", "cacheKey": {"queryParameters": {"exclude": ["utm_*"]}}},
        {"defaultTTL": "1m", "bypass": {"headers": [{"name": "x-debug", "valueRegex": INVALID_REGEX}]}},
        {"defaultTTL": "1m", "forcedTTL": "1m"},
        {"defaultTTL": "soon"},
        {},
    )
)
cache_policies = st.builds(
    lambda name, namespace, target, fields, created, generation: obj(
        "VarnishCachePolicy",
        name,
        namespace,
        group=VARNISH_API,
        metadata={"creationTimestamp": created, "generation": generation},
        spec={"targetRef": target} | fields,
    ),
    st.sampled_from(("c1", "c2", "c3")),
    namespaces,
    cache_targets,
    cache_fields,
    ages,
    st.integers(1, 2),
)
labelled = st.builds(
    lambda name, labels: obj("Namespace", name, group="", metadata={"labels": labels}),
    namespaces,
    st.sampled_from(({}, {"tier": "web"})),
)

objects = st.one_of(
    *(classes, parameters, config_maps, gateways, gateways, listener_sets, listener_sets),
    *(routes, routes, routes, services, grants, policies, labelled, secrets, secrets, authorities),
    *(cache_policies, cache_policies, cache_policies),
)


def keyed(changes: list[tuple[api.Object, bool]]) -> Changes:
    return {api.key_of(changed): changed if kept else None for changed, kept in changes}


def backbone() -> Changes:
    """Return routes that are served, one with a backend elsewhere, two Gateways with one port, ListenerSets."""
    everyone = {"namespaces": {"from": "All"}}
    one = {"name": "one", "port": 80, "protocol": "HTTP", "allowedRoutes": everyone}
    two = {"name": "two", "port": 81, "protocol": "HTTP", "allowedRoutes": everyone, "hostname": "a.example.com"}
    three = {"name": "three", "port": 443, "protocol": "HTTPS", "allowedRoutes": everyone}
    three["tls"] = {"certificateRefs": [{"name": "cert"}, {"name": "other", "namespace": "team"}]}
    parents = [{"name": "gw", "namespace": "default"}]
    of_set = {"kind": "ListenerSet", "name": "s1", "namespace": "team"}
    spec = {"gatewayClassName": "varnish", "allowedListeners": {"namespaces": {"from": "All"}}}
    local, crossing = {"name": "web", "port": 80}, {"name": "api", "namespace": "default", "port": 80}
    source = {"group": GATEWAY_API, "kind": "HTTPRoute", "namespace": "team"}
    later = {"creationTimestamp": "2024-01-01T00:00:00Z"}

    def route(name: str, namespace: str, *refs: dict, **spec) -> api.Object:
        return obj("HTTPRoute", name, namespace, spec={"parentRefs": parents, "rules": [{"backendRefs": refs}]} | spec)

    served = (
        obj("Gateway", "gw", "default", spec=spec | {"listeners": [one, two, three]}),
        obj("Gateway", "second", "default", metadata=later, spec=spec | {"listeners": [one]}),
        *(
            obj("ListenerSet", name, "team", spec={"parentRef": parents[0], "listeners": entries})
            for name, entries in (("s1", [two | {"hostname": "b.example.com"}, one | {"port": 82}]), ("s2", [two]))
        ),
        route("r1", "default", local),
        route("r2", "default", local, hostnames=["*.example.com"]),
        route("r1", "team", local, crossing),
        route("r2", "team", local, parentRefs=[*parents, of_set]),
        *(
            obj("Service", name, namespace, group="", spec={"ports": [{"port": 80}]})
            for name in ("web", "api")
            for namespace in NAMESPACES
        ),
        obj("Secret", "cert", "default", group="", data=SECRETS[0], type="kubernetes.io/tls"),
        obj("ReferenceGrant", "g1", "default", spec={"from": [source], "to": [{"group": "", "kind": "Service"}]}),
    )
    return {api.key_of(each): each for each in served}


BACKBONE = backbone()
changes = st.one_of(
    st.tuples(objects, st.just(True)),
    st.tuples(objects, st.booleans()),
    st.tuples(st.sampled_from(list(BACKBONE.values())), st.booleans()),
)
batches = st.lists(changes, min_size=1, max_size=4).map(keyed)
"""One update: objects that came or changed, and objects that went."""
worlds = st.lists(objects, max_size=10).map(lambda found: BACKBONE | keyed([(each, True) for each in found]))
"""Everything that there is at one time: something that is served, and what comes on top of it."""
options = st.fixed_dictionaries(
    {
        "assume_class": mostly(True, False),
        "one_machine": st.booleans(),
        "allow_external_name": st.booleans(),
        "namespace_regexes": st.sampled_from((16 << 20, 3_000)),  # all, or only one of their patterns
        "policies_limit": mostly(None, 200),  # all, or only two usual ones
    }
)

REGEXES = ("/a+", "/b[0-9]+", "/c.*d")
budget_routes = st.builds(
    lambda name, namespace, pattern, weights, created: obj(
        "HTTPRoute",
        name,
        namespace,
        metadata={"creationTimestamp": created},
        spec={
            "parentRefs": [{"name": "gw", "namespace": "default"}],
            "rules": [
                {
                    "matches": [{"path": {"type": "RegularExpression", "value": pattern} if pattern else {}}],
                    "backendRefs": [{"name": "web", "port": 80}, {"name": "api", "port": 80}][:weights],
                }
            ],
        },
    ),
    st.sampled_from(("r1", "r2", "r3")),
    namespaces,
    st.sampled_from((None, *REGEXES)),
    st.sampled_from((1, 1, 2)),
    ages,
)
budget_policies = st.builds(
    lambda name, target, patterns, created: obj(
        "VarnishCachePolicy",
        name,
        target[0],
        group=VARNISH_API,
        metadata={"creationTimestamp": created},
        spec={"targetRef": target[1], "defaultTTL": "1m"} | patterns,
    ),
    st.sampled_from(("c1", "c2", "c3")),
    st.sampled_from(
        (
            ("default", {"kind": "Gateway", "name": "gw"}),
            ("default", {"kind": "Gateway", "name": "gw", "sectionName": "one"}),
            ("default", {"kind": "HTTPRoute", "name": "r1"}),
            ("team", {"kind": "ListenerSet", "name": "s1"}),
            ("team", {"kind": "ListenerSet", "name": "s2"}),
            ("team", {"kind": "HTTPRoute", "name": "r2"}),
        )
    ),
    st.sampled_from(
        (
            {},
            {"cacheKey": {"headers": ["x" * 200]}},
            {"cacheKey": {"queryParameters": {"exclude": ["utm_*"]}}},
            {"bypass": {"headers": [{"name": "x", "valueRegex": "on+"}]}},
        )
    ),
    ages,
)
budget_batches = st.lists(
    st.tuples(st.one_of(budget_routes, budget_policies, budget_policies), mostly(True, True, False)),
    min_size=1,
    max_size=4,
).map(keyed)
"""Routes and policies of one Gateway that compete for its budgets."""
budget_options = st.fixed_dictionaries(
    {
        "assume_class": st.just(True),
        "namespace_regexes": st.sampled_from((1_500, 3_000, 6_000)),
        "gateway_regexes": st.sampled_from((4_000, 64 << 20)),
        "policies_limit": st.sampled_from((None, 300, 1_000)),
    }
)
