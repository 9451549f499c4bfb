"""What the objects of a Gateway are called.

In:   the names of a Gateway, its namespace and its class.
Out:  names, labels and annotations that Kubernetes accepts whatever the Gateway is called.
Pure. A name that is valid stays as it is. Another one is cut, and ends in a hash of the whole;
a Gateway whose own name ends like that gets a hash too, so no two Gateways share a name.
Users give the Gateway's own name to Services and Deployments, and ``{gateway}-tls`` to their
certificates. So ours end in ``-vgw``. Earlier versions did without: those names are the former ones.
"""

import re
from hashlib import sha256

GROUP = "gateway.varnish-software.com"
GATEWAY_MANAGER = "varnish-gateway"
"""The field manager of the Gateway controller."""
ROUTE_MANAGER = "varnish-gateway-routes"
"""The field manager of the HTTPRoute controller, which also writes the statuses of policies."""
MANAGERS = (GATEWAY_MANAGER, ROUTE_MANAGER)

NAME_LABEL = "app.kubernetes.io/name"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
GATEWAY_LABEL = "gateway.networking.k8s.io/gateway-name"
CLASS_LABEL = "gateway.networking.k8s.io/gateway-class-name"
NAMESPACE_LABEL = f"{GROUP}/gateway-namespace"
OURS = "varnish-gateway"

GATEWAY_ANNOTATION = f"{GROUP}/gateway"
"""The full name of the Gateway: the label's value may be a shortened one."""
INFRA_HASH = "varnish.io/infra-hash"
APPLIED_HASH = "varnish.io/applied-hash"
GENERATION = "varnish.io/gateway-generation"
CAPABILITIES = "varnish.io/capabilities"
"""Of a ConfigMap: what routing is expressed with. An operator that starts goes on with that until pods report."""
VCL_HASH = "varnish.io/vcl-hash"
"""Of a ConfigMap: the hash of its main.vcl. An operator of an earlier version writes main.vcl without it, and then the
capabilities say nothing about the pods any more."""
TEMPLATE = "varnish.io/pod-template"
"""Of a Deployment: what the operator itself puts into every pod template, whatever the Gateway asks for."""
OWN_TEMPLATE = "varnish.io/own-template"
"""Of a Deployment: the hash of what it would be without the ports of ListenerSets."""
PORT_CHANGES = "varnish.io/port-changes"
"""Of a Deployment: how many port changes of ListenerSets followed one another, and when the newest one was applied."""

MAIN_VCL = "main.vcl"
ROUTING = "routing.json"
INDEX = "shards.json"
FRESH = "fresh.json"
"""The keys of a Gateway's ConfigMaps."""
TLS = "tls.json"
"""The key of a Gateway's Secret that names the others."""
SOURCES = "sources.json"
"""The key of a Gateway's Secret that says which Secret each certificate comes from; pods don't read it."""
TOKEN = "operator-token"  # noqa: S105 - the name of a key
"""The key of a Gateway's Secret with the token by which its pods know the operator."""

LABEL_LIMIT = 63
SUBDOMAIN_LIMIT = 253
SHARD_ROOM = len("-9999")

WORKLOAD_SUFFIX = "-vgw"
WORKLOAD_KINDS = (
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "Service",
    "PodDisruptionBudget",
    "Deployment",
    "HorizontalPodAutoscaler",
)
"""What has the name of ``workload``."""
FORMER_DIGITS = 8
DIGITS = 16
"""So long is the hash in a name that had to be cut."""

_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")


def child_name(gateway: str, suffix: str = "", limit: int = LABEL_LIMIT, digits: int = FORMER_DIGITS) -> str:
    """Return the name of an object of the Gateway.

    Up to 63 characters it is a DNS label that starts with a letter, as Services and what a pod's
    name derives from need it; above it is a DNS subdomain.
    """
    valid = _DNS_LABEL if limit <= LABEL_LIMIT else _SUBDOMAIN
    fits = len(gateway) + len(suffix) <= limit
    looks_cut = re.fullmatch(rf".*-x[0-9a-f]{{{digits}}}", gateway)
    if fits and valid.fullmatch(gateway) and not looks_cut:
        return gateway + suffix
    mark = f"-x{_hash(gateway, digits)}"
    plain = gateway.replace(".", "-") if limit <= LABEL_LIMIT else gateway
    start = "gw-" if not valid.match(plain) else ""
    cut = f"{start}{plain}"[: limit - len(mark) - len(suffix)].rstrip("-.")
    return f"{cut}{mark}{suffix}"


def label_value(name: str) -> str:
    """Return a name as the value of a label: 63 characters at most."""
    looks_cut = len(name) == LABEL_LIMIT and re.fullmatch(r".*-[0-9a-f]{8}", name)
    if len(name) <= LABEL_LIMIT and not looks_cut:
        return name
    return f"{name[: LABEL_LIMIT - 9]}-{_hash(name, 8)}"


def workload(gateway: str) -> str:
    """Return the name of the objects of WORKLOAD_KINDS."""
    return child_name(gateway, WORKLOAD_SUFFIX, digits=DIGITS)


def former_workload(gateway: str) -> str:
    """Return the name that such objects had in earlier versions; those that exist keep it."""
    return child_name(gateway)


def config_map(gateway: str, shard: int = 0) -> str:
    """Return the name of the ConfigMap of a shard; that of shard 0 also has main.vcl."""
    return shard_map(child_name(gateway, "-vcl", SUBDOMAIN_LIMIT - SHARD_ROOM), shard)


def shard_map(first: str, shard: int) -> str:
    """Return the name of the ConfigMap of a shard beside that of shard 0."""
    return f"{first}-{shard}" if shard else first


def secret(gateway: str) -> str:
    """Return the name of the Secret with the certificates."""
    return child_name(gateway, f"{WORKLOAD_SUFFIX}-tls", SUBDOMAIN_LIMIT, DIGITS)


def former_secret(gateway: str) -> str:
    """Return the name that the Secret had in earlier versions: it stays while a pod reads it."""
    return child_name(gateway, "-tls", SUBDOMAIN_LIMIT)


def endpoints_binding(namespace: str, gateway: str) -> str:
    """Return the name of the RoleBinding by which a Gateway reads the EndpointSlices of some namespace.

    Gateways of several namespaces meet there, and must not be able to use each other's name.
    """
    suffix = f"-endpoints-{_hash(f'{namespace}/{gateway}', 32)}"
    return gateway[: SUBDOMAIN_LIMIT - len(suffix)].rstrip("-.") + suffix


def labels(namespace: str, gateway: str, class_name: str) -> dict[str, str]:
    """Return the labels of every object of a Gateway."""
    return {
        **pod_selector(gateway),
        MANAGED_BY_LABEL: OURS,
        CLASS_LABEL: label_value(class_name),
        NAMESPACE_LABEL: namespace,
    }


def pod_selector(gateway: str) -> dict[str, str]:
    """Return the labels by which a Gateway's pods are found in its namespace. They can never change."""
    return {NAME_LABEL: OURS, GATEWAY_LABEL: label_value(gateway)}


def owned_selector(class_name: str) -> str:
    """Return the label selector of everything that belongs to the Gateways of a class."""
    return f"{MANAGED_BY_LABEL}={OURS},{CLASS_LABEL}={label_value(class_name)}"


def belongs(kind: str, namespace: str, name: str, gateway_namespace: str, gateway: str) -> bool:
    """Whether an object has the place of one that we make for a Gateway."""
    if kind == "RoleBinding" and name == endpoints_binding(gateway_namespace, gateway):
        return True
    if namespace != gateway_namespace:
        return False
    if kind == "ConfigMap":
        start = config_map(gateway)
        return name == start or bool(re.fullmatch(r"-\d{1,4}", name.removeprefix(start)))
    if kind == "Secret":
        return name in (secret(gateway), former_secret(gateway))
    return name in (workload(gateway), former_workload(gateway))


def _hash(text: str, digits: int) -> str:
    return sha256(text.encode()).hexdigest()[:digits]
