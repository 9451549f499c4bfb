"""The containers of a gateway pod: the chaperone with its varnishd, and the access log where one is configured."""

from typing import Any

from varnish_gateway.api.varnish import Logging, MetricsParameters, Parameters, StorageParameters
from varnish_gateway.emit import names
from varnish_gateway.emit.listen import varnish_listen
from varnish_gateway.emit.manifests.infra import image
from varnish_gateway.emit.manifests.metadata import Manifest
from varnish_gateway.emit.manifests.shape import GatewayShape, Installation
from varnish_gateway.ir import arguments, pod, stores
from varnish_gateway.ir.reserved import HEALTH_PORT

RESOURCES = {"requests": {"cpu": "100m", "memory": pod.DEFAULT_MEMORY}}
LOG_RESOURCES = {"requests": {"cpu": "10m", "memory": "32Mi"}}
"""An autoscaler needs the requests of every container of a pod."""
NO_PATHS = "none"
"""Without the variable, pods take the operator for one of an earlier version and look for mounts themselves."""
SECRET_VARIABLE = "SECRET_NAME"  # noqa: S105 - the name of a variable
LISTEN_VARIABLE = "VARNISH_LISTEN"
STORAGE_VARIABLE = "VARNISH_STORAGE"
REQUEST_VARIABLE = "MEMORY_REQUEST"
CACHED_ROUTES_VARIABLE = "METRICS_CACHED_ROUTES"


def gateway(shape: GatewayShape, installation: Installation) -> Manifest:
    """Return the container that serves."""
    sockets = sorted({(listener.port, listener.socket) for listener in shape.listeners})
    ports = [*sockets, (HEALTH_PORT, "health")]
    mounts = [{"name": mount.volume, "mountPath": mount.path} for mount in (*pod.MOUNTS[:-1], *_store(shape))]
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
    words = ["-n", pod.VARNISH_DIR, "-t", "off"]
    if logging.format:
        words += ["-F", logging.format]
    return {
        "name": pod.LOG_CONTAINER,
        "image": logging.image or image(shape, installation),
        "command": [logging.mode],
        "args": [*words, *logging.extra_args],
        # varnishd's process is in another container, where its number means nothing here.
        "env": [{"name": "VSM_NOPID", "value": "1"}],
        "resources": LOG_RESOURCES,
        "volumeMounts": [{"name": pod.VARNISH.volume, "mountPath": pod.VARNISH.path, "readOnly": True}],
        "securityContext": _security(),
    }


def _store(shape: GatewayShape) -> tuple[pod.Mount, ...]:
    """Return the mount of the volume that holds the cache, if a file does."""
    storage = shape.parameters.storage
    return (pod.Mount(storage.volume or pod.STORE.volume, pod.STORE.path),) if storage.type == stores.FILE else ()


def _environment(shape: GatewayShape, installation: Installation) -> list[Manifest]:
    variables = {
        "CONFIGMAP_NAME": names.config_map(shape.name),
        "GATEWAY_NAME": shape.name,
        "HEALTH_ADDR": f":{HEALTH_PORT}",
        "LOG_LEVEL": installation.log_level,
        "NAMESPACE": shape.namespace,
        SECRET_VARIABLE: names.secret(shape.name),
        "VARNISHD_EXTRA_ARGS": ";".join(arguments.of_class(shape.parameters)),
        "VARNISHD_READABLE": ":".join(mount["mountPath"] for mount in shape.parameters.extra_volume_mounts) or NO_PATHS,
        "VARNISH_DIR": pod.VARNISH_DIR,
        LISTEN_VARIABLE: varnish_listen(shape.listeners),
        "WORK_DIR": pod.WORK.path,
    }
    if shape.parameters.metrics != MetricsParameters():
        variables[CACHED_ROUTES_VARIABLE] = str(shape.parameters.metrics.cached_routes)
    if shape.parameters.storage != StorageParameters():
        variables[STORAGE_VARIABLE] = stores.store(shape.parameters.storage, pod.STORE.path)
    pod_name = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}
    given = [{"name": name, "value": value} for name, value in variables.items() if value]
    return [*given, pod_name, *_memory_request(shape.parameters)]


def _memory_request(parameters: Parameters) -> list[Manifest]:
    """Return the variable with the requested memory, where the size of the cache depends on it.

    The cgroup of a container has its limit, but not its request. Where the request is the default, and where
    a limit or an argument of the user decides, there is no variable: it would replace pods without an effect.
    """
    resources = parameters.resources or {}
    has_request, has_limit = ("memory" in (resources.get(kind) or {}) for kind in ("requests", "limits"))
    is_decided = stores.names_a_store(parameters.varnishd_extra_args) or has_limit
    if is_decided or not has_request or not stores.is_share_of_memory(parameters.storage):
        return []
    amount = {"containerName": pod.GATEWAY_CONTAINER, "resource": "requests.memory", "divisor": "1"}
    return [{"name": REQUEST_VARIABLE, "valueFrom": {"resourceFieldRef": amount}}]


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
