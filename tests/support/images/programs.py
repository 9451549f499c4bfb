"""Run a command with the programs of the gateway's image in place of this machine's.

    python tests/support/images/programs.py pytest tests/varnish

In:   build/images/gateway.tar, and libvmod_ghost_panic.so beside it.
Out:  the command's exit status. It runs in a mount and a network namespace of its own: varnishd
      and its like are started inside the image's root file system, which shares /tmp, /proc, /dev
      and this tree with the machine. Nothing is left behind.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

TREE = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TREE / "tests"), str(TREE / "src")]

from support.images.archive import BUILT, Archive  # noqa: E402 - of this tree
from support.images.containers import HOSTS  # noqa: E402

PROGRAMS = ("haproxy", "varnishadm", "varnishd", "varnishlog", "varnishncsa", "varnishstat", "varnishtest")
BINARIES = (Path("/usr/bin"), Path("/usr/sbin"))
SHARED = ("/dev", "/proc", "/tmp", str(TREE))
ENTERED = "VGW_IMAGE_ROOT"
STARTER = """#!/bin/sh
exec chroot {root} /bin/sh -c 'cd "$0" && exec {path} "$@"' "$PWD" "$@"
"""


def main() -> int:
    if (root := os.environ.get(ENTERED)) is not None:
        return _inside(Path(root), sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the directory goes
    # Not below /tmp, which the image's file system shares.
    with tempfile.TemporaryDirectory(prefix="root-", dir=BUILT) as directory:
        Path(directory).chmod(0o755)
        Archive(BUILT / "gateway.tar").unpack(Path(directory))
        command = ["unshare", "--mount", "--net", sys.executable, __file__, *sys.argv[1:]]
        return subprocess.run(command, env=os.environ | {ENTERED: directory}, check=False).returncode


def _inside(root: Path, command: Sequence[str]) -> int:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for path in SHARED:
        (root / path[1:]).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "--rbind", path, str(root / path[1:])], check=True)
    (root / "etc" / "hosts").write_text(HOSTS)
    return subprocess.run(command, env=_environment(root), check=False).returncode


def _environment(root: Path) -> Mapping[str, str]:
    """Write a starter for each program, and return an environment that finds them first."""
    starters = root / "starters"
    starters.mkdir()
    for program in PROGRAMS:
        starter = starters / program
        (path,) = (where / program for where in BINARIES if (root / where.relative_to("/") / program).exists())
        starter.write_text(STARTER.format(root=root, path=path))
        starter.chmod(0o755)
    vmod = root / "opt" / "ghost" / "libvmod_ghost.so"
    return os.environ | {
        "PATH": f"{starters}:{os.environ['PATH']}",
        "VGW_VMOD": str(vmod),
        "GHOST_VMOD": str(vmod),
        "GHOST_VMOD_PANIC": str(BUILT / "libvmod_ghost_panic.so"),
        "VARNISHD_READABLE": ":".join(map(str, _own(root))),
    }


def _own(root: Path) -> list[Path]:
    """Return what varnishd may read of the image inside its fence: what it doesn't share with the machine."""
    shared = {Path(path).parts[1] for path in SHARED}
    return [entry for entry in root.iterdir() if entry.name not in shared]


if __name__ == "__main__":
    sys.exit(main())
