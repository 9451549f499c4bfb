"""Pods of Gateways, as the API server stores them.

In:   the text of a Pod.
Out:  GatewayPod: where its chaperone answers, and whether Kubernetes sends it traffic.
Pure.
"""

import msgspec
from msgspec import Struct, field

from varnish_gateway.api import Key
from varnish_gateway.emit import names


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


class _Pod(Struct):
    metadata: _Metadata
    status: _Status = field(default_factory=_Status)


class GatewayPod(Struct, frozen=True):
    """``is_ready``: Kubernetes sends traffic to it."""

    name: str
    gateway: Key
    address: str
    is_ready: bool


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
    )
