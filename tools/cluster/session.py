"""A cluster for as long as something runs in it, and our own tests as such a thing."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

from cluster import inside, install, layout, lifecycle, lock

WAIT_FOR_OTHERS = 3600.0
Say = Callable[[str], None]


def is_ours() -> bool:
    """Whether the cluster of this checkout is up."""
    return bool(inside.node_processes()) and lock.holder().get("root") == str(layout.ROOT)


@contextlib.contextmanager
def cluster(say: Say, *, keep: bool) -> Iterator[None]:
    """Use the cluster of this checkout if it is up; otherwise one that ends with us, unless it is to be kept."""
    if is_ours():
        say("using the cluster that is up; it stays up")
        yield
        return
    watched, held = os.pipe()  # without a writer: the node notices the end of our process
    try:
        lifecycle.up(say, wait=WAIT_FOR_OTHERS, lifeline=None if keep else watched)
        try:
            yield
        finally:
            if not keep and (is_ours() or not lock.is_held()):
                lifecycle.down(say)
    finally:
        os.close(watched)
        os.close(held)


def run_tests(arguments: Sequence[str], say: Say) -> int:
    """Run tests/cluster where test clients are, and return pytest's exit status."""
    return _run_installed(("-m", "pytest", "tests/cluster", *arguments), say)


def run_bench(arguments: Sequence[str], say: Say) -> int:
    """Measure how long routes take."""
    return _run_installed(("bench/propagation.py", *arguments), say)


def _run_installed(python: Sequence[str], say: Say) -> int:
    with cluster(say, keep=False):
        install.everything(say)
        command = inside.in_client(sys.executable, *python)
        search = ":".join(str(layout.ROOT / folder) for folder in ("src", "tests", "tools"))
        environment = {**inside.environment(), "PYTHONPATH": search}
        return subprocess.run(command, cwd=layout.ROOT, env=environment, check=False).returncode
