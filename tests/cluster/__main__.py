"""The cluster, for people and for make: ``python -m cluster COMMAND``."""

import argparse
import os
import sys
import time

from cluster import inside, install, lifecycle, lock, session, suite
from cluster.errors import ClusterError

_began = time.monotonic()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m cluster", description="A real Kubernetes cluster for tests.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="bring it up")
    down = commands.add_parser("down", help="take it down; clean up after a crash")
    down.add_argument("--force", action="store_true", help="also that of another checkout")
    commands.add_parser("status", help="say what there is")
    commands.add_parser("install", help="import the images of make images and install the chart")
    for name, what in (
        ("kubectl", "run kubectl"),
        ("client", "run a program where test clients are"),
        ("test", "run our own tests; arguments are pytest's"),
        ("bench", "measure how long a new route takes to be served"),
    ):
        commands.add_parser(name, help=what).add_argument("arguments", nargs=argparse.REMAINDER)
    suite.add_arguments(commands.add_parser("conformance", help="run the official conformance suite"))
    told = parser.parse_args()
    try:
        return _obey(told)
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _obey(told: argparse.Namespace) -> int:
    match told.command:
        case "up":
            if not session.is_ours():
                lifecycle.up(say)
            say("it is up; use it by: python -m cluster kubectl …; make cluster-down takes it down")
        case "down":
            lifecycle.down(say, force=told.force)
        case "status":
            return status()
        case "install":
            install.everything(say)
        case "kubectl":
            become(*inside.in_client("kubectl", *told.arguments))
        case "client":
            become(*inside.in_client(*(told.arguments or [os.environ.get("SHELL", "sh")])))
        case "test":
            return session.run_tests(told.arguments, say)
        case "bench":
            return session.run_bench(told.arguments, say)
        case "conformance":
            return suite.conformance(told, say)
    return 0


def status() -> int:
    """Say who has a cluster; fail if nobody has."""
    if not lock.is_held():
        print("no cluster is up")
        return 1
    print(f"a cluster is up: {lock.describe(lock.holder())}")
    print(inside.kubectl("get", "nodes,pods,services", "--all-namespaces", "-o", "wide"))
    return 0


def become(*command: str) -> None:
    """Go on as this command, with its input, output and exit status."""
    os.execvpe(command[0], command, inside.environment())


def say(line: str) -> None:
    print(f"[{time.monotonic() - _began:5.0f} s] {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
