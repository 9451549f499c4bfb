"""Unpack Debian packages without installing them: ``unpack_packages.py cluster`` or ``unpack_packages.py bench``.

In:   the packages of this machine's Debian release, for a cluster's node or for the benchmarks. They are not
      installed because those of containerd and nginx would start a service.
Out:  build/debian or build/nginx, a link to the unpacked files in a cache outside the tree; ``versions`` lists the
      packages.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "varnish-gateway" / "debian"


class Selection(NamedTuple):
    """Packages, and the link to their files."""

    link: Path
    packages: Sequence[str]
    size: str


SELECTIONS = {
    "cluster": Selection(
        ROOT / "build" / "debian", ("containerd", "containernetworking-plugins", "runc"), "about 60 MB"
    ),
    "bench": Selection(ROOT / "build" / "nginx", ("nginx",), "about 1 MB"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="unpack Debian packages without installing them")
    parser.add_argument("what", choices=SELECTIONS)
    selection = SELECTIONS[parser.parse_args().what]
    CACHE.mkdir(parents=True, exist_ok=True)
    target = CACHE / _key(selection.packages)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            try:
                _unpack(selection, target)
            except subprocess.CalledProcessError as error:
                print(f"unpack_packages: {' '.join(error.cmd)}: {error.stderr.strip()}", file=sys.stderr)
                return 1
    link = selection.link
    link.parent.mkdir(exist_ok=True)
    new = link.with_suffix(".new")
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.rename(link)
    return 0


def _key(packages: Sequence[str]) -> str:
    release = Path("/etc/os-release").read_bytes()
    return hashlib.sha256(release + "\0".join(packages).encode()).hexdigest()[:16]


def _unpack(selection: Selection, target: Path) -> None:
    print(f"downloading Debian packages: {', '.join(selection.packages)} ({selection.size})", flush=True)
    new = target.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    downloads = new / "downloads"
    downloads.mkdir(parents=True)
    try:
        _run("apt-get", "download", "-qq", *selection.packages, where=downloads)
    except subprocess.CalledProcessError:  # package lists are missing or out of date
        _run("apt-get", "update", "-qq", where=downloads)
        _run("apt-get", "download", "-qq", *selection.packages, where=downloads)
    archives = sorted(downloads.glob("*.deb"))
    for archive in archives:
        _run("dpkg", "-x", str(archive), str(new), where=downloads)
    (new / "versions").write_text("".join(f"{archive.stem}\n" for archive in archives))
    shutil.rmtree(downloads)
    new.rename(target)


def _run(*command: str, where: Path) -> None:
    subprocess.run(command, cwd=where, check=True, capture_output=True, text=True)


if __name__ == "__main__":
    sys.exit(main())
