"""What operators work on in a simulation, besides what tests/apiserver has."""

from functools import cache
from typing import Any

from support import certificates
from support.kube.churn import user_vcl
from support.kube.documents import gateway_class, namespace, parameters, reference_grant, service
from varnish_gateway.emit import names

HOME, AWAY = "home", "away"
BACKEND = "web"
"""The Service to which routes lead; there is one in each of the two namespaces."""
CERTIFICATE = "certificate"
OURS, OTHERS, STRANGERS = "varnish", "other", "foreign"
"""Classes: of the operator under test, of another operator of ours, and of a third-party controller."""
Document = dict[str, Any]


def basics() -> list[Document]:
    """Return what a cluster has before anybody makes a Gateway."""
    return [
        *(namespace(name) for name in (HOME, AWAY)),
        user_vcl(HOME),
        class_parameters("vcl"),
        *(class_named(name) for name in (OURS, OTHERS, STRANGERS)),
        *(service(place, BACKEND) for place in (HOME, AWAY)),
        reference_grant(AWAY, HOME),
    ]


def class_named(name: str) -> Document:
    """Return one of the three classes; ours has parameters of its own name."""
    made = gateway_class(name, parameters=name if name == OURS else None)
    if name == STRANGERS:
        made["spec"]["controllerName"] = "example.com/stranger"
    return made


def class_parameters(vcl: str | None = None, **spec: Any) -> Document:
    """Return the parameters of our class, with a ConfigMap of user VCL."""
    ref = {"userVCLConfigMapRef": {"name": vcl, "namespace": HOME, "key": "user.vcl"}} if vcl else {}
    return parameters(OURS, **spec, **ref)


def with_parents(made: Document, *parents: tuple[str, str]) -> Document:
    """Return a route with other parents: kinds and names."""
    made["spec"]["parentRefs"] = [{"kind": kind, "name": name} for kind, name in parents]
    return made


def https() -> Document:
    """Return a listener with TLS."""
    return {
        "name": "https",
        "port": 443,
        "protocol": "HTTPS",
        "tls": {"certificateRefs": [{"name": CERTIFICATE}]},
        "allowedRoutes": {"namespaces": {"from": "All"}},
    }


@cache
def _issued(host: str) -> certificates.Issued:
    return certificates.authority("root").issue(host)


def certificate(host: str) -> Document:
    """Return the Secret that listeners with TLS name, with a certificate for a host."""
    return _issued(host).secret(HOME, CERTIFICATE)


def pod(name: str, gateway: str, class_name: str, *, is_ready: bool = True) -> Document:
    """Return a pod of a Gateway."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": HOME,
            "labels": names.labels(HOME, gateway, class_name),
            "annotations": {names.GATEWAY_ANNOTATION: gateway},
        },
        "status": {"podIP": "192.0.2.1", "conditions": [{"type": "Ready", "status": str(is_ready)}]},
    }
