"""Unpack Debian packages that a cluster's node needs, without installing them: ``unpack_packages.py``.

In:   the packages of this machine's Debian release. They are not installed because the containerd package
      would start a service.
Out:  build/debian, a link to the unpacked files in a cache outside the tree; ``versions`` lists the packages.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = ROOT / "build" / "debian"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "varnish-gateway" / "debian"
PACKAGES = ("containerd", "containernetworking-plugins", "runc")


def main() -> int:
    CACHE.mkdir(parents=True, exist_ok=True)
    target = CACHE / _key()
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            try:
                _unpack(target)
            except subprocess.CalledProcessError as error:
                print(f"unpack_packages: {' '.join(error.cmd)}: {error.stderr.strip()}", file=sys.stderr)
                return 1
    LINK.parent.mkdir(exist_ok=True)
    new = LINK.with_suffix(".new")
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.rename(LINK)
    return 0


def _key() -> str:
    release = Path("/etc/os-release").read_bytes()
    return hashlib.sha256(release + "\0".join(PACKAGES).encode()).hexdigest()[:16]


def _unpack(target: Path) -> None:
    print(f"downloading Debian packages: {', '.join(PACKAGES)} (about 60 MB)", flush=True)
    new = target.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    downloads = new / "downloads"
    downloads.mkdir(parents=True)
    try:
        _run("apt-get", "download", "-qq", *PACKAGES, where=downloads)
    except subprocess.CalledProcessError:  # package lists are missing or out of date
        _run("apt-get", "update", "-qq", where=downloads)
        _run("apt-get", "download", "-qq", *PACKAGES, where=downloads)
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
