"""Pods of Gateways, as the API server stores them.

In:   the text of a Pod.
Out:  GatewayPod: where its chaperone answers, and whether Kubernetes sends it traffic.
Pure.
"""

import msgspec
from msgspec import Struct, field

from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.manifests.containers import SECRET_VARIABLE


class _Metadata(Struct, rename="camel"):
    name: str
    namespace: str
    deletion_timestamp: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class _Condition(Struct):
    type: str
    status: str


class _Status(Struct, rename="camel"):
    pod_ip: str = field(default="", name="podIP")
    conditions: tuple[_Condition, ...] = ()


class _Variable(Struct):
    name: str
    value: str = ""


class _Container(Struct):
    env: tuple[_Variable, ...] = ()


class _PodSpec(Struct):
    containers: tuple[_Container, ...] = ()

    @property
    def secret(self) -> str:
        """The Secret that the chaperone reads, "" where it isn't named."""
        variables = (variable for container in self.containers for variable in container.env)
        return next((variable.value for variable in variables if variable.name == SECRET_VARIABLE), "")


class _Pod(Struct):
    metadata: _Metadata
    spec: _PodSpec = field(default_factory=_PodSpec)
    status: _Status = field(default_factory=_Status)


class _Template(Struct):
    spec: _PodSpec


class _DeploymentSpec(Struct):
    template: _Template


class _Deployment(Struct):
    spec: _DeploymentSpec


class GatewayPod(Struct, frozen=True):
    """``is_ready``: Kubernetes sends traffic to it. ``secret`` is the one with its certificates."""

    name: str
    gateway: Key
    address: str
    is_ready: bool
    secret: str = ""


_deployment = msgspec.json.Decoder(_Deployment)
_pod = msgspec.json.Decoder(_Pod)


def decode_pod(text: bytes) -> GatewayPod:
    pod = _pod.decode(text)
    metadata = pod.metadata
    is_ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
    return GatewayPod(
        name=metadata.name,
        gateway=Key("Gateway", metadata.namespace, metadata.annotations.get(names.GATEWAY_ANNOTATION, "")),
        address=pod.status.pod_ip,
        is_ready=is_ready and metadata.deletion_timestamp is None,
        secret=pod.spec.secret,
    )


def secret_read(deployment: bytes) -> str:
    """Return the Secret that the pods of a Deployment read."""
    return _deployment.decode(deployment).spec.template.spec.secret
