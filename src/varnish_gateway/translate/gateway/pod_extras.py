"""Validate what a class adds to the pods: volumes, mounts, init containers.

In:   the spec of a GatewayClassParameters.
Out:  what clashes with the gateway's own pod, or with itself, and how to correct it.
The API server validates the content of volumes and containers.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from varnish_gateway.ir import pod, stores

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from varnish_gateway.api.varnish import ParametersSpec


def clash(spec: ParametersSpec) -> str | None:
    """Return the first thing that can't be added."""
    return (
        _taken_name("extraVolumes", spec.extra_volumes, _own_volumes(spec))
        or _taken_name("extraInitContainers", spec.extra_init_containers, pod.CONTAINERS)
        or _first(_mount_clash(mount, spec) for mount in spec.extra_volume_mounts)
        or _twice("extraVolumeMounts", [str(_path(mount)) for mount in spec.extra_volume_mounts])
    )


def _own_mounts(spec: ParametersSpec) -> tuple[pod.Mount, ...]:
    return (*pod.MOUNTS, pod.STORE) if spec.storage.type == stores.FILE else pod.MOUNTS


def _own_volumes(spec: ParametersSpec) -> list[str]:
    """Return the names of our volumes; that of the cache is free where the user gives the volume."""
    return [mount.volume for mount in _own_mounts(spec) if mount != pod.STORE or not spec.storage.volume]


def _taken_name(field: str, added: Sequence[dict[str, Any]], own: Sequence[str]) -> str | None:
    names = [item["name"] for item in added]
    for name in names:
        if name in own:
            return f"{field}: the name {name} is used by the gateway itself; choose another one"
    return _twice(field, names)


def _twice(field: str, names: Sequence[str]) -> str | None:
    for name in names:
        if names.count(name) > 1:
            return f"{field}: {name} occurs more than once; remove one of them"
    return None


def _mount_clash(mount: dict[str, Any], spec: ParametersSpec) -> str | None:
    path, field = _path(mount), f"extraVolumeMounts: {mount['mountPath']}"
    if mount["name"] not in {volume["name"] for volume in spec.extra_volumes}:
        return f"{field}: there is no volume {mount['name']} in extraVolumes; add it there"
    if not path.is_absolute() or ".." in path.parts:
        return f"{field} is not a path from the root; correct it"
    for own in map(PurePosixPath, (mount.path for mount in _own_mounts(spec))):
        # A mount below /tmp is harmless; the other directories belong to the gateway alone.
        inside = path == own if str(own) == pod.TMP.path else path.is_relative_to(own)
        if inside or own.is_relative_to(path):
            return f"{field} would cover {own}, which the gateway uses itself; choose another path"
    return None


def _path(mount: dict[str, Any]) -> PurePosixPath:
    path = PurePosixPath(re.sub(r"^/+", "/", mount["mountPath"]))
    return "/var" / path.relative_to("/") if path.is_relative_to("/run") else path  # /var/run is a link to /run


def _first(clashes: Iterable[str | None]) -> str | None:
    return next(filter(None, clashes), None)
