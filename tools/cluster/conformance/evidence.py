"""Keep what explains why a test failed: objects with their statuses, events, logs of pods and of the node.

A test removes its objects when it ends, and the logs of its pods go with them, so they are
copied as soon as a part of it has failed.
"""

import shutil
from pathlib import Path

from cluster import inside
from cluster.layout import LOGS, POD_LOGS

OBJECTS = {
    "gateway-api": "gatewayclasses,gateways,httproutes,referencegrants,listenersets,backendtlspolicies",
    "workloads": "deployments,pods,services,endpointslices,configmaps",
}
"""Never Secrets: evidence is for showing around."""


def collect(directory: Path) -> None:
    """Copy everything there is now; what can't be had is not there."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, kinds in OBJECTS.items():
        _write(directory / f"{name}.yaml", "get", kinds, "--all-namespaces", "-o", "yaml")
    _write(directory / "overview.txt", "get", "pods,services,gateways,httproutes", "--all-namespaces", "-o", "wide")
    _write(directory / "events.txt", "get", "events", "--all-namespaces", "--sort-by=.lastTimestamp")
    for name, source in {"pods": POD_LOGS, "node": LOGS}.items():
        shutil.copytree(
            source, directory / name, ignore_dangling_symlinks=True, dirs_exist_ok=True, copy_function=_copy
        )


def _write(path: Path, *arguments: str) -> None:
    path.write_text(inside.kubectl(*arguments, check=False))


def _copy(source: str, target: str) -> None:
    """Copy a file that may go away meanwhile."""
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError:
        return
