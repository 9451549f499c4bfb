"""A Gateway that tenants share, as files of ``vgw run``: ordinary tenants, and one that means harm.

In:   ports of origins, and how many workers varnishd may have.
Out:  a directory of files, and where clients find what the files serve.

Every run has the same objects at its start. Only clients and edits differ between a hostile run and
a well-behaved one.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loopback import free_port
from support.certificates import secret
from support.directories import replace
from support.kube.documents import gateway, gateway_class, listener_set, parameters, route
from support.varnish.tls import Pair, pair

Document = dict[str, Any]

OWNER, TENANTS, HOSTILE = "infra", ("shop-0", "shop-1", "shop-2"), "hostile"
"""Namespaces: of the Gateway, of ordinary tenants, of the hostile one."""
GATEWAY = "shared"
SECURE_HOST = "secure.hostile.test"
LONG_HEADER = "X-Long"
PATTERNS = 60
"""Each reads a whole header of 30 KB: more than the steps that a request may take."""
HITS = """\
sub vcl_recv {
    if (req.http.X-Hit) {
        return (hash);
    }
}
sub vcl_backend_response {
    set beresp.ttl = 1h;
}
"""


@dataclass(frozen=True)
class OriginPorts:
    """Loopback ports of origins: one that answers, one that never does, one that accepts WebSockets."""

    good: int
    silent: int
    websocket: int


@dataclass
class HostileSite:
    """The files, and the ports that they make the gateway open. ``workers`` are varnishd's, in two pools."""

    directory: Path
    origins: OriginPorts
    workers: int
    http: int = field(default_factory=free_port)
    https: int = field(default_factory=free_port)
    health: int = field(default_factory=free_port)
    secure: int = field(default_factory=free_port)
    flipping: tuple[int, int] = field(default_factory=lambda: (free_port(), free_port()))
    """Ports that the hostile tenant opens and closes."""

    def write_all(self) -> None:
        self.write("owner", *self._of_owner())
        for tenant in TENANTS:
            self.write(tenant, *_service(tenant, "web", self.origins.good), _route(tenant, "web", "web", host(tenant)))
        self.write("hostile", *self._of_hostile())
        self.write_listeners(self.http)
        self.write_certificate(certificate(0))
        self.write_patterns(["/api/v[0-9]+"])

    def write(self, name: str, *documents: Document) -> None:
        """Replace a file, as an editor does."""
        replace(self.directory / f"{name}.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))

    def write_listeners(self, port: int, hostname: str = "flip.hostile.test") -> None:
        """Give the hostile tenant's listeners: one with TLS, and one on this port."""
        document = listener_set(HOSTILE, "own", GATEWAY, port=port, hostname=hostname)
        tls = {"certificateRefs": [{"name": "own"}]}
        listener = {"name": "secure", "port": self.secure, "protocol": "HTTPS", "hostname": SECURE_HOST, "tls": tls}
        document["spec"] = {
            "parentRef": {"name": GATEWAY, "namespace": OWNER},
            "listeners": [*document["spec"]["listeners"], listener],
        }
        self.write("listeners", document)

    def write_certificate(self, one: Pair) -> None:
        self.write("certificate", secret(HOSTILE, "own", one.certificate, one.key))

    def write_patterns(self, patterns: Sequence[str]) -> None:
        """Give a route of the hostile tenant these patterns of a path."""
        matches = [{"path": {"type": "RegularExpression", "value": pattern}} for pattern in patterns]
        self.write("patterns", _route(HOSTILE, "patterns", "good", "patterns.hostile.test", matches=matches))

    def _of_owner(self) -> Iterator[Document]:
        user_vcl = {"name": "user-vcl", "namespace": OWNER}
        workers = ["-p", f"thread_pool_min={self.workers // 4}", "-p", f"thread_pool_max={self.workers // 2}"]
        yield gateway_class("varnish", "shared")
        yield parameters("shared", userVCLConfigMapRef=user_vcl, varnishdExtraArgs=workers)
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": user_vcl, "data": {"user.vcl": HITS}}
        document = gateway(OWNER, GATEWAY, "varnish", ports=[self.http])
        tls = {"certificateRefs": [{"name": "web"}]}
        anywhere = {"namespaces": {"from": "All"}}
        listener = {"name": "https", "port": self.https, "protocol": "HTTPS", "tls": tls, "allowedRoutes": anywhere}
        document["spec"]["listeners"].append(listener)
        document["spec"]["allowedListeners"] = anywhere
        yield document
        own = pair("shop.test")
        yield secret(OWNER, "web", own.certificate, own.key)

    def _of_hostile(self) -> Iterator[Document]:
        ports = {
            "good": self.origins.good,
            "silent": self.origins.silent,
            "websocket": self.origins.websocket,
            "itself": self.http,
        }
        for name, port in ports.items():
            yield from _service(HOSTILE, name, port)
            yield _route(HOSTILE, name, name, host(name))
        matches = [_reading(number) for number in range(PATTERNS)]
        yield _route(HOSTILE, "regexes", "good", host("regexes"), matches=matches)
        yield _route(HOSTILE, "secure", "good", SECURE_HOST, parent={"kind": "ListenerSet", "name": "own"})


def host(name: str) -> str:
    """Return the host of a tenant, or of a Service of the hostile one."""
    return f"{name}.test"


def certificate(number: int) -> Pair:
    """Return a valid certificate of the hostile tenant."""
    return pair(SECURE_HOST, number)


def _reading(number: int) -> Document:
    """Return a match whose pattern reads all of a header."""
    return {"headers": [{"type": "RegularExpression", "name": LONG_HEADER, "value": f".*b{number}x"}]}


def _service(namespace: str, name: str, port: int) -> Iterator[Document]:
    metadata = {"name": name, "namespace": namespace}
    yield {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"name": "p", "port": 80}]}}
    yield {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**metadata, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "ports": [{"name": "p", "port": port}],
        "endpoints": [{"addresses": ["127.0.0.1"]}],
    }


def _route(
    namespace: str,
    name: str,
    service: str,
    hostname: str,
    *,
    matches: Sequence[Document] = (),
    parent: Document | None = None,
) -> Document:
    document = route(namespace, name, GATEWAY, host=hostname, backend={"name": service})
    document["spec"]["parentRefs"] = [parent or {"name": GATEWAY, "namespace": OWNER}]
    document["spec"]["rules"][0] |= {"matches": list(matches)} if matches else {}
    return document
