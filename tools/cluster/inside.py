"""Ways into a running cluster: programs in the node's namespaces, and in the client's network."""

import os
import subprocess
from pathlib import Path

from cluster import lock
from cluster.errors import ClusterError
from cluster.layout import ADMIN, BIN, CLIENT_NAMESPACE, CONTAINERD_SOCKET, LOCK, PACKAGES, STATE

NODE_MODULE = "cluster.node"


def node_processes() -> list[int]:
    """Return the node's first process and who waits for it: they have the lock's file open."""
    return [pid for pid in _who_has_open(LOCK) if NODE_MODULE in _arguments(pid)]


def node() -> int:
    """Return the process number of the node's first process, as seen from outside."""
    pid = lock.holder().get("node")
    if not isinstance(pid, int) or pid not in node_processes():
        raise ClusterError("no cluster is up: make cluster-up")
    return pid


def in_client(*command: str) -> list[str]:
    """Return the command that runs this one where test clients are."""
    return ["nsenter", f"--net=/proc/{node()}/root{CLIENT_NAMESPACE}", "--", *command]


def in_node(*command: str) -> list[str]:
    """Return the command that runs this one on the node."""
    return ["nsenter", f"--target={node()}", "--mount", "--net", "--pid", "--uts", "--ipc", "--", *command]


def environment() -> dict[str, str]:
    """Return the environment of a client: it finds the cluster and our programs, and no proxy of the machine."""
    own = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return {**own, "KUBECONFIG": str(ADMIN), "PATH": f"{BIN}:{own.get('PATH', os.defpath)}", "HOME": str(STATE)}


def kubectl(*arguments: str, stdin: str | None = None, check: bool = True) -> str:
    """Run kubectl and return what it prints."""
    return run(*in_client(str(BIN / "kubectl"), *arguments), stdin=stdin, check=check)


def ctr(*arguments: str) -> str:
    """Run containerd's client for the images and containers of Kubernetes."""
    program = str(PACKAGES.resolve() / "usr" / "bin" / "ctr")
    return run(*in_node(program, "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io", *arguments))


def run(*command: str, stdin: str | None = None, check: bool = True) -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=environment())
    if check and done.returncode:
        name = next((Path(word).name for word in command[1:] if word.startswith("/")), command[0])
        raise ClusterError(f"{name} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def _who_has_open(path: Path) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = [descriptor.readlink() for descriptor in (process / "fd").iterdir()]
        except OSError:  # it has ended meanwhile
            continue
        if path in links:
            found.append(int(process.name))
    return sorted(found)


def _arguments(pid: int) -> list[str]:
    try:
        return Path("/proc", str(pid), "cmdline").read_text().split("\0")
    except OSError:
        return []
