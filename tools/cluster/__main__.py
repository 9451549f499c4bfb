"""The cluster, for people and for make: ``python -m cluster COMMAND``."""

import argparse
import os
import sys
import time
from typing import NoReturn

from cluster import inside, install, lifecycle, lock, session
from cluster.conformance import suite
from cluster.errors import ClusterError

HANDED_ON = ("kubectl", "client", "test", "bench")
"""Commands whose arguments are another program's."""
_began = time.monotonic()


def main() -> int:
    options = read(sys.argv[1:])
    try:
        return int(options.run(options))
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def read(words: list[str]) -> argparse.Namespace:
    """Parse a command line; the arguments of a command that runs another program are passed on unparsed."""
    is_handed_on = words[:1] and words[0] in HANDED_ON
    options = _parser().parse_args(words[:1] if is_handed_on else words)
    options.arguments = words[1:] if is_handed_on else []
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cluster", description="A real Kubernetes cluster for tests.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    described = {
        up: "start it",
        down: "stop it; clean up after a crash",
        status: "show the running cluster",
        installed: "import the images of make images and install the chart",
        kubectl: "run kubectl",
        client: "run a program where test clients are",
        test: "run our own tests; arguments are pytest's",
        bench: "measure how long a new route takes to be served",
        conformance: "run the official conformance suite",
    }
    for run, what in described.items():
        command = commands.add_parser({installed: "install"}.get(run, run.__name__), help=what)
        command.set_defaults(run=run)
        if run is down:
            command.add_argument("--force", action="store_true", help="also that of another checkout")
        elif run is conformance:
            suite.add_arguments(command)
    return parser


def up(_: argparse.Namespace) -> int:
    if not session.is_ours():
        lifecycle.up(say)
    say("the cluster is up: python -m cluster kubectl …; make cluster-down stops it")
    return 0


def down(options: argparse.Namespace) -> int:
    lifecycle.down(say, force=options.force)
    return 0


def status(_: argparse.Namespace) -> int:
    """Show the running cluster and its checkout; fail if there is none."""
    if not lock.is_held():
        print("no cluster is up")
        return 1
    print(f"a cluster is up: {lock.describe(lock.holder())}")
    print(inside.kubectl("get", "nodes,pods,services", "--all-namespaces", "-o", "wide"))
    return 0


def installed(_: argparse.Namespace) -> int:
    install.everything(say)
    return 0


def kubectl(options: argparse.Namespace) -> NoReturn:
    _become(*inside.in_client("kubectl", *options.arguments))


def client(options: argparse.Namespace) -> NoReturn:
    _become(*inside.in_client(*(options.arguments or [os.environ.get("SHELL", "sh")])))


def test(options: argparse.Namespace) -> int:
    return session.run_tests(options.arguments, say)


def bench(options: argparse.Namespace) -> int:
    return session.run_bench(options.arguments, say)


def conformance(options: argparse.Namespace) -> int:
    return suite.conformance(options, say)


def _become(*command: str) -> NoReturn:
    """Replace this process by the command."""
    os.execvpe(command[0], command, inside.environment())


def say(line: str) -> None:
    print(f"[{time.monotonic() - _began:5.0f} s] {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
