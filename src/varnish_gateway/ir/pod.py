"""What a gateway pod is made of, by name.

Manifests are built from these names, and translation rejects what would clash with them.
"""

from typing import NamedTuple


class Mount(NamedTuple):
    volume: str
    path: str


WORK = Mount("work", "/var/run/varnish")
"""The chaperone's own files: the last configuration and its keys live here, across restarts of the container."""
VARNISH = Mount("varnish", "/var/lib/varnish")
"""varnishd's directory with its shared memory, which the access log reads."""
TMP = Mount("tmp", "/tmp")  # noqa: S108 - a volume of the pod alone
TOKEN = Mount("api-access", "/var/run/secrets/kubernetes.io/serviceaccount")
"""What the chaperone talks to the API server with; other containers don't get it."""
STORE = Mount("store", "/var/cache/varnish")
"""The cache, where a class keeps it in a file; other pods don't have it."""
MOUNTS = (WORK, VARNISH, TMP, TOKEN)

VARNISH_DIR = f"{VARNISH.path}/varnishd"
DEFAULT_MEMORY = "512Mi"
"""What a pod requests if its class requests nothing."""
GATEWAY_CONTAINER = "gateway"
LOG_CONTAINER = "access-log"
CONTAINERS = (GATEWAY_CONTAINER, LOG_CONTAINER)
