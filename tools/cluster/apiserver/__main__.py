"""A cluster without nodes, for development: ``make dev-cluster``.

In:   commands on standard input, one word each; ``help`` lists them.
Out:  etcd, API server and controllers on loopback with everything of deploy/ except the
      operator's own Deployment, and kubeconfigs under build/dev-cluster. Ends with its input.
"""

import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import yaml

from cluster.apiserver.server import Cluster

ROOT = Path(__file__).parents[3]
DIRECTORY = ROOT / "build" / "dev-cluster"
SYSTEM, ACCOUNT = "varnish-gateway-system", "varnish-gateway-operator"
NEEDS_NODES = ("Deployment", "PodDisruptionBudget")

WELCOME = """\
There is a cluster without nodes on {server}. In other terminals:

  export KUBECONFIG={here}/admin.json
  build/bin/kubectl get gatewayclass
  KUBECONFIG={here}/operator.json ./vgw operator --log-format text

Commands here: {commands}
"""


def install(cluster: Cluster) -> None:
    """Apply deploy/ as far as it does not need a node."""
    for path in sorted((ROOT / "deploy").glob("0[0-3]-*.yaml")):
        chosen = [one for one in yaml.safe_load_all(path.read_text()) if one["kind"] not in NEEDS_NODES]
        arguments = ("apply", "--server-side", "--force-conflicts", "-f", "-")
        cluster.kubectl(*arguments, stdin=yaml.safe_dump_all(chosen))


def write_kubeconfigs(cluster: Cluster) -> None:
    """One for a person, one with what the operator's own account may do."""
    shutil.copy(cluster.kubeconfig(), DIRECTORY / "admin.json")
    shutil.copy(cluster.kubeconfig(cluster.service_account_token(SYSTEM, ACCOUNT)), DIRECTORY / "operator.json")


def commands(cluster: Cluster) -> dict[str, Callable[[], object]]:
    """Return what can be done to the cluster while it runs. Its API server is another one after a restart."""
    return {
        "kill": cluster.kill_api,
        "start": cluster.start_api,
        "pause": lambda: cluster.api.pause(),  # noqa: PLW0108
        "resume": lambda: cluster.api.resume(),  # noqa: PLW0108
        "compact": cluster.compact,
    }


def obey(cluster: Cluster, lines: Iterable[str]) -> None:
    """Carry out commands until there are no more, or ``quit``."""
    known = commands(cluster)
    for word in (line.strip() for line in lines):
        if word == "quit":
            return
        if word not in known:
            print(f"write one of {', '.join(known)}, quit", flush=True)
            continue
        try:
            known[word]()
        except (AssertionError, OSError) as error:  # such as: the API server is not running
            print(f"{word}: {error}", flush=True)
        else:
            print(f"{word}: done", flush=True)


def main() -> int:
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    cluster = Cluster(DIRECTORY).start()
    try:
        install(cluster)
        cluster.start_controllers()
        write_kubeconfigs(cluster)
        words = ", ".join([*commands(cluster), "quit"])
        print(WELCOME.format(server=cluster.server, here=DIRECTORY.relative_to(ROOT), commands=words), flush=True)
        obey(cluster, sys.stdin)
    except KeyboardInterrupt:
        pass
    finally:
        cluster.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
