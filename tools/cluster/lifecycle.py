"""Start and stop the cluster.

Nothing of a cluster is outside its namespaces but one directory, one lock file and control groups, so
stopping it is: end the node's first process, remove these. It works after any crash, and twice.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cluster import images, inside, layout, lock
from cluster.errors import ClusterError
from cluster.inside import kubectl
from cluster.layout import CONFIGS, KUBECONFIGS, LOGS, PKI, STATE
from cluster.node import cgroups, configs, pki

NODE_SECONDS = 180.0
END_SECONDS = 20.0
GAP = 0.1
Say = Callable[[str], None]


def up(say: Say, *, wait: float = 0.0, lifeline: int | None = None) -> None:
    """Start a cluster; with a lifeline it stops when the pipe's other end is closed."""
    check_machine()
    held = lock.acquire(wait=wait, waiting=lambda who: say(f"waiting for another cluster to end: {who}"))
    with held:
        clean()
        _write_state()
        cgroups.create(cgroups.current())
        lock.sign(held, root=str(layout.ROOT))
        node = _start_node(held.fileno(), lifeline)
        lock.sign(held, root=str(layout.ROOT), node=node)
    say(f"node started as process {node}")
    try:
        _await_node(say)
    except BaseException:
        say(f"the cluster did not come up; its logs are in {LOGS}, make cluster-down removes it")
        raise


def down(say: Say, *, force: bool = False) -> None:
    """Stop the cluster, or clean up after a crash; do nothing if there is none."""
    processes = inside.node_processes()  # first: the processes of a later cluster are not ended
    before = lock.holder()
    if lock.is_held() and not force and before.get("root") != str(layout.ROOT):
        raise ClusterError(f"this cluster is not of this checkout: {lock.describe(before)}; down --force")
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    try:
        held = lock.acquire(wait=END_SECONDS)
    except lock.Held:
        if lock.holder() == before:
            raise
        say(f"another cluster has taken its place: {lock.describe(lock.holder())}")  # and has cleaned up for itself
        return
    left = clean()
    lock.remove(held)
    if left:
        raise ClusterError(f"could not remove {', '.join(map(str, left))}")
    say("no cluster is left")


def check_machine() -> None:
    """Refuse what can't work, before anything is made."""
    if os.geteuid() != 0:
        raise ClusterError("a cluster needs root: namespaces, mounts and control groups")
    for path in (layout.ROOT, layout.BIN.resolve(), Path(sys.executable).resolve()):
        if any(path.is_relative_to(hidden) for hidden in layout.HIDDEN):
            raise ClusterError(f"{path} is not seen by the node, which has its own {', '.join(layout.HIDDEN)}: move it")
    for needed in (layout.BIN / "kubelet", layout.BIN / "echo-basic", layout.PACKAGES / "usr/bin/containerd"):
        if not needed.exists():
            raise ClusterError(f"{needed} is missing: make build/cluster")


def clean() -> list[Path]:
    """Remove what a cluster left; the caller holds the lock. Return what could not be removed."""
    left = cgroups.remove(cgroups.current())
    for place in mounts_below(STATE, Path("/proc/self/mounts").read_text()):
        subprocess.run(["umount", "--lazy", place], check=False)
    shutil.rmtree(STATE, ignore_errors=True)
    return [*left, *([STATE] if STATE.exists() else [])]


def mounts_below(directory: Path, mounts: str) -> list[str]:
    """Return where something is mounted at or below a directory, the innermost first."""
    places = [line.split()[1] for line in mounts.splitlines()]
    return [place for place in reversed(places) if Path(place).is_relative_to(directory)]


def _write_state() -> None:
    for place in (PKI, KUBECONFIGS, LOGS, layout.IMAGES, layout.POD_LOGS, CONFIGS / "cni", STATE / "tmp"):
        place.mkdir(parents=True)
    STATE.chmod(0o700)
    pki.create(PKI)
    pki.write_kubeconfigs(PKI, KUBECONFIGS)
    (CONFIGS / "kubelet.json").write_text(json.dumps(configs.kubelet(), indent=2))
    (CONFIGS / "proxy.json").write_text(json.dumps(configs.proxy(), indent=2))
    (CONFIGS / "cni" / "10-pods.conflist").write_text(json.dumps(configs.pod_network(), indent=2))
    (CONFIGS / "containerd.toml").write_text(configs.containerd(layout.PACKAGES.resolve()))
    (CONFIGS / "resolv.conf").write_text(f"nameserver {layout.DNS_SERVICE}\n")


def _start_node(held: int, lifeline: int | None) -> int:
    """Start the node's first process and return its number."""
    namespaces = ("--fork", "--kill-child=KILL", "--pid", "--mount", "--net", "--uts", "--ipc")
    command = [
        "unshare", *namespaces, "--propagation=slave",
        sys.executable, "-m", inside.NODE_MODULE, f"--keep={held}",
        *([] if lifeline is None else [f"--lifeline={lifeline}"]),
    ]  # fmt: skip
    with (LOGS / "node.log").open("ab") as log:
        parent = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**os.environ, "PYTHONPATH": str(layout.ROOT / "tools")},
            pass_fds=[held, *([] if lifeline is None else [lifeline])],
            start_new_session=True,
        )
    children = Path("/proc", str(parent.pid), "task", str(parent.pid), "children")
    deadline = time.monotonic() + END_SECONDS
    while parent.poll() is None and time.monotonic() < deadline:
        if found := children.read_text().split():
            return int(found[0])
        time.sleep(0.01)
    raise ClusterError(f"the node did not start:\n{_last_words()}")


def _await_node(say: Say) -> None:
    began = time.monotonic()
    _await("containerd", _containerd_answers)
    say(f"containerd runs after {time.monotonic() - began:.0f} s")
    images.import_base()
    say(f"images of pause, echo and DNS are in after {time.monotonic() - began:.0f} s")
    _await("the API server and the node", _node_is_ready)
    kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(_kubelet_access()))
    _await("the default ServiceAccount", _has_account)
    say(f"the node is ready after {time.monotonic() - began:.0f} s")


def _await(what: str, there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + NODE_SECONDS
    while not there():
        if not inside.node_processes():
            raise ClusterError(f"the node ended:\n{_last_words()}")
        if time.monotonic() > deadline:
            raise ClusterError(f"still waiting for {what} after {NODE_SECONDS:.0f} s; see {LOGS}")
        time.sleep(GAP)


def _containerd_answers() -> bool:
    try:
        inside.ctr("version")
    except ClusterError:
        return False
    return True


def _node_is_ready() -> bool:
    ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    return kubectl("get", "node", layout.NODE, "-o", ready, check=False).strip() == "True"


def _has_account() -> bool:
    return bool(kubectl("get", "serviceaccount", "default", "--ignore-not-found", "-o", "name", check=False).strip())


def _kubelet_access() -> dict[str, object]:
    """Return what lets the API server ask the kubelet for logs, and run commands in pods."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": layout.NAME},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "system:kubelet-api-admin"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": layout.KUBELET_ADMINS}],
    }


def _last_words() -> str:
    log = LOGS / "node.log"
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:]) if log.exists() else ""
