"""The node: what happens inside its namespaces, as their first process. ``python -m cluster.node``.

In:   state written by ``lifecycle``; descriptors to keep (the lock) and to watch (the lifeline).
Out:  mounts and network of the node, the client's network namespace, and everything of
      ``programs`` running until the lifeline is cut. All of it vanishes with this process.
"""

import argparse
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from cluster import layout
from cluster.node import programs
from cluster.node.supervisor import Supervisor, say

API_SECONDS = 120.0
SYSCTLS = {
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}
"""What the kubelet would set for the whole machine: the node sees files that hold these values already."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", type=int, required=True, help="descriptor of the lock")
    parser.add_argument("--lifeline", type=int, help="descriptor of a pipe; the node ends with it")
    options = parser.parse_args()
    for descriptor in (options.keep, options.lifeline):
        if descriptor is not None:
            os.set_inheritable(descriptor, False)
    prepare_mounts()
    prepare_network()
    packages = layout.PACKAGES.resolve()
    supervisor = Supervisor(layout.LOGS, environment(packages), options.lifeline)
    supervisor.start(programs.first(packages))
    if not supervisor.wait_for(api_is_ready, API_SECONDS):
        say(f"the API server is not ready after {API_SECONDS:.0f} s")
        return 1
    say("the API server is ready")
    supervisor.start(programs.then())
    supervisor.supervise()
    return 0


def environment(packages: Path) -> dict[str, str]:
    """Return what programs of the node see of this process's environment: nothing."""
    system = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
    return {
        "HOME": "/",
        "PATH": ":".join([f"{packages}/usr/sbin", f"{packages}/usr/bin", str(layout.BIN), *system]),
        "PYTHONPATH": str(layout.ROOT / "tools"),
        "TMPDIR": str(layout.STATE / "tmp"),
    }


def prepare_mounts() -> None:
    """Hide what Kubernetes would write to outside its own directories."""
    _run("mount", "-t", "proc", "proc", "/proc")
    for place in layout.HIDDEN:
        _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", place)
    for name, value in SYSCTLS.items():
        stand_in = Path("/run") / f"sysctl-{name.replace('/', '-')}"
        stand_in.write_text(f"{value}\n")
        _run("mount", "--bind", str(stand_in), f"/proc/sys/{name}")
    _run("mount", "--make-rshared", "/")  # pods' volumes have to be seen by the containers


def prepare_network() -> None:
    """Join the node with the client's namespace; neither has a way to anywhere else."""
    _run("hostname", layout.NODE)
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "netns", "add", Path(layout.CLIENT_NAMESPACE).name)
    _run("ip", "link", "add", "node0", "type", "veth", "peer", "name", "client0", "netns", "client")
    _bring_up((), "node0", layout.NODE_ADDRESS)
    _bring_up(("-n", "client"), "client0", layout.CLIENT_ADDRESS)
    # The client forwards nothing: this is for programs that look for a default route.
    _run("ip", "route", "add", "default", "via", layout.CLIENT_ADDRESS)
    for reachable in (layout.PODS, layout.SERVICES, layout.LOAD_BALANCERS):
        _run("ip", "-n", "client", "route", "add", reachable, "via", layout.NODE_ADDRESS)
    # Until kube-proxy knows an address, a connection to it has to fail at once: one that is forwarded
    # instead is remembered by the kernel, and its repetitions never reach the Service.
    _run("ip", "route", "add", "unreachable", layout.LOAD_BALANCERS)
    _set("net/ipv4/ip_forward", "1")
    _set("net/ipv4/conf/all/send_redirects", "0")
    _set("net/bridge/bridge-nf-call-iptables", "1")


def _bring_up(where: tuple[str, ...], link: str, address: str) -> None:
    _run("ip", *where, "addr", "add", f"{address}/{layout.LINK_PREFIX}", "dev", link)
    _run("ip", *where, "link", "set", link, "up")
    _run("ip", *where, "link", "set", "lo", "up")


def api_is_ready() -> bool:
    trust = ssl.create_default_context(cafile=layout.PKI / "ca.crt")
    try:
        with urllib.request.urlopen(f"{layout.SERVER}/readyz", context=trust, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _set(name: str, value: str) -> None:
    try:
        Path("/proc/sys", name).write_text(value)
    except OSError as error:  # without the bridge module there is nothing to set
        say(f"{name}: {error.strerror}")


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
