"""Names, addresses and directories of the cluster. There is one on a machine at a time, so all of them are fixed."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
BIN = ROOT / "build" / "bin"
"""Programs that tools/build_binaries.py made."""
PACKAGES = ROOT / "build" / "debian"
"""Debian packages that tools/unpack_packages.py unpacked."""

PREVIOUS = ROOT / "build" / "previous"
"""The previous version that tools/build_previous.py built."""

NAME = "varnish-gateway-cluster"
LOCK = Path("/var/tmp") / f"{NAME}.lock"
STATE = Path("/var/tmp") / NAME
"""Everything that a cluster writes. The sockets in it need a short path."""
PKI = STATE / "pki"
KUBECONFIGS = STATE / "kubeconfigs"
CONFIGS = STATE / "configs"
LOGS = STATE / "logs"
IMAGES = STATE / "images"
POD_LOGS = STATE / "podlogs"
ADMIN = KUBECONFIGS / "admin.json"

HIDDEN = ("/run", "/var/lib", "/var/log")
"""Where Kubernetes writes to fixed paths: the node has empty ones of its own instead."""
CONTAINERD_SOCKET = "/run/containerd.sock"
CLIENT_NAMESPACE = "/run/netns/client"
"""Of test clients, as the node sees it."""

NODE = "node1"
CGROUP = f"/{NAME}"

NODE_ADDRESS = "10.99.0.2"
CLIENT_ADDRESS = "10.99.0.1"
LINK_PREFIX = 24
PODS = "10.244.0.0/16"
SERVICES = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
DNS_SERVICE = "10.96.0.10"
LOAD_BALANCERS = "10.98.0.0/24"
USABLE_ADDRESS = "10.98.0.200"
"""Of the pool, and never given to who does not ask for it."""
UNUSABLE_ADDRESS = "10.97.0.1"
"""Not of the pool."""

API_PORT = 6443
SERVER = f"https://{NODE_ADDRESS}:{API_PORT}"
PAUSE_IMAGE = "varnish-gateway.test/pause:1"
ECHO_IMAGE = "varnish-gateway.test/echo:1"
KUBELET_ADMINS = f"{NAME}:kubelet-admins"
"""The group of the API server where it calls the kubelet, for logs and exec."""
