"""The containers of a gateway pod: the chaperone with its varnishd, and the access log where one is configured."""

from typing import Any

from varnish_gateway.api.varnish import Logging
from varnish_gateway.emit import names
from varnish_gateway.emit.listen import varnish_listen
from varnish_gateway.emit.manifests.infra import image
from varnish_gateway.emit.manifests.metadata import Manifest
from varnish_gateway.emit.manifests.shape import GatewayShape, Installation
from varnish_gateway.ir import pod
from varnish_gateway.ir.reserved import HEALTH_PORT

RESOURCES = {"requests": {"cpu": "100m", "memory": "512Mi"}}
LOG_RESOURCES = {"requests": {"cpu": "10m", "memory": "32Mi"}}
"""An autoscaler needs the requests of every container of a pod."""
SECRET_VARIABLE = "SECRET_NAME"  # noqa: S105 - the name of a variable


def gateway(shape: GatewayShape, installation: Installation) -> Manifest:
    """Return the container that serves."""
    sockets = sorted({(listener.port, listener.socket) for listener in shape.listeners})
    ports = [*sockets, (HEALTH_PORT, "health")]
    mounts = [{"name": mount.volume, "mountPath": mount.path} for mount in pod.MOUNTS[:-1]]
    token = {"name": pod.TOKEN.volume, "mountPath": pod.TOKEN.path, "readOnly": True}
    return {
        "name": pod.GATEWAY_CONTAINER,
        "image": image(shape, installation),
        "command": ["vgw", "chaperone"],
        "env": _environment(shape, installation),
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for port, name in ports],
        "resources": _resources(shape.parameters.resources),
        "volumeMounts": [*mounts, token, *shape.parameters.extra_volume_mounts],
        "securityContext": _security(),
        "startupProbe": _probe("/health", periodSeconds=1, failureThreshold=60),
        "readinessProbe": _probe("/ready", periodSeconds=2, failureThreshold=2),
        "livenessProbe": _probe("/health", periodSeconds=10, failureThreshold=3),
    }


def access_log(shape: GatewayShape, installation: Installation, logging: Logging) -> Manifest:
    """Return the container that writes varnishd's log to its output; it sees that and nothing else."""
    # It may start before varnishd: -t off waits.
    arguments = ["-n", pod.VARNISH_DIR, "-t", "off"]
    if logging.format:
        arguments += ["-F", logging.format]
    return {
        "name": pod.LOG_CONTAINER,
        "image": logging.image or image(shape, installation),
        "command": [logging.mode],
        "args": [*arguments, *logging.extra_args],
        # varnishd's process is in another container, where its number means nothing here.
        "env": [{"name": "VSM_NOPID", "value": "1"}],
        "resources": LOG_RESOURCES,
        "volumeMounts": [{"name": pod.VARNISH.volume, "mountPath": pod.VARNISH.path, "readOnly": True}],
        "securityContext": _security(),
    }


def _environment(shape: GatewayShape, installation: Installation) -> list[Manifest]:
    variables = {
        "CONFIGMAP_NAME": names.config_map(shape.name),
        "GATEWAY_NAME": shape.name,
        "HEALTH_ADDR": f":{HEALTH_PORT}",
        "LOG_LEVEL": installation.log_level,
        "NAMESPACE": shape.namespace,
        SECRET_VARIABLE: names.secret(shape.name),
        "VARNISHD_EXTRA_ARGS": ";".join(shape.parameters.varnishd_extra_args),
        "VARNISHD_READABLE": ":".join(mount["mountPath"] for mount in shape.parameters.extra_volume_mounts),
        "VARNISH_DIR": pod.VARNISH_DIR,
        "VARNISH_LISTEN": varnish_listen(shape.listeners),
        "WORK_DIR": pod.WORK.path,
    }
    pod_name = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}
    return [*({"name": name, "value": value} for name, value in variables.items() if value), pod_name]


def _resources(requested: dict[str, Any] | None) -> Manifest:
    """Return the resources of the class in place of the defaults: a limit may lie below a default request."""
    if requested is None:
        return RESOURCES
    return {
        kind: {resource: str(amount) for resource, amount in amounts.items()}
        for kind, amounts in requested.items()
        if kind in ("requests", "limits") and amounts
    }


def _security() -> Manifest:
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def _probe(path: str, **times: int) -> Manifest:
    return {"httpGet": {"path": path, "port": "health", "scheme": "HTTP"}, "timeoutSeconds": 2, **times}
