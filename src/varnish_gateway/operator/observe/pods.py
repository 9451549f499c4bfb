"""Pods of Gateways, as the API server stores them.

In:   the text of a Pod.
Out:  GatewayPod: where its chaperone answers, and whether Kubernetes sends it traffic.
Pure.
"""

from datetime import datetime

import msgspec
from msgspec import Struct, field

from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.manifests.containers import SECRET_VARIABLE
from varnish_gateway.ir.pod import GATEWAY_CONTAINER

TEMPLATE_LABEL = "pod-template-hash"
"""Set by the Deployment controller: pods with the same value were created from the same template."""
ENDED = ("Succeeded", "Failed")
"""Phases of a pod whose containers have ended for good, as after an eviction."""


class _Metadata(Struct, rename="camel"):
    name: str
    namespace: str
    deletion_timestamp: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class _Condition(Struct):
    type: str
    status: str


class _Running(Struct, rename="camel"):
    started_at: datetime | None = None


class _ContainerState(Struct):
    running: _Running | None = None


class _ContainerStatus(Struct):
    name: str
    state: _ContainerState = field(default_factory=_ContainerState)


class _Status(Struct, rename="camel"):
    pod_ip: str = field(default="", name="podIP")
    phase: str = ""
    conditions: tuple[_Condition, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()


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
    """``is_ready``: Kubernetes sends traffic to it. ``secret`` is the one with its certificates.

    ``is_leaving``: it is being deleted, or has ended and will not start again. Pods of one ``template`` run the same
    image; "" where it isn't known. ``is_running``: its gateway runs, so that there may be a cache, and ``started`` is
    since when, in seconds since 1970; None where it isn't known.
    """

    name: str
    gateway: Key
    address: str
    is_ready: bool
    secret: str = ""
    is_leaving: bool = False
    template: str = ""
    is_running: bool = True
    started: float | None = None


_deployment = msgspec.json.Decoder(_Deployment)
_pod = msgspec.json.Decoder(_Pod)


def decode_pod(text: bytes) -> GatewayPod:
    pod = _pod.decode(text)
    metadata = pod.metadata
    is_ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
    is_deleting = metadata.deletion_timestamp is not None
    has_ended = pod.status.phase in ENDED
    is_running, started = _running(pod.status)
    return GatewayPod(
        name=metadata.name,
        gateway=Key("Gateway", metadata.namespace, metadata.annotations.get(names.GATEWAY_ANNOTATION, "")),
        address=pod.status.pod_ip,
        is_ready=is_ready and not is_deleting,
        secret=pod.spec.secret,
        is_leaving=is_deleting or has_ended,
        template=metadata.labels.get(TEMPLATE_LABEL, ""),
        is_running=is_running and not has_ended,
        started=started,
    )


def _running(status: _Status) -> tuple[bool, float | None]:
    """Return whether the gateway of a pod runs, and since when. A pod without an address runs nothing."""
    state = next((one.state for one in status.container_statuses if one.name == GATEWAY_CONTAINER), None)
    if state is None:
        return bool(status.pod_ip), None
    since = state.running.started_at if state.running is not None else None
    return state.running is not None and bool(status.pod_ip), since.timestamp() if since is not None else None


def secret_read(deployment: bytes) -> str:
    """Return the Secret that the pods of a Deployment read."""
    return _deployment.decode(deployment).spec.template.spec.secret
