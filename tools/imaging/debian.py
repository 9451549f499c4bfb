"""The base of both images: a Debian release of the smallest kind that has apt, by mmdebstrap.

In:   the name of the release; this machine's sources of Debian, where it has any.
Out:  in a cache, an archive of the root file system and the sources that it came from. The
      archive holds no sources, no documentation and nothing of this machine.
"""

import hashlib
import subprocess
from pathlib import Path
from typing import NamedTuple

from imaging.machine import debian_sources

SUITE = "trixie"
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*", "/usr/share/lintian/*")
"""Packages that are installed later leave these out, too."""
REMOVED = "etc/apt/sources.list etc/hostname etc/resolv.conf var/lib/apt/lists/* var/cache/* var/log/*"


class Base(NamedTuple):
    """A base in the cache, or a place for one; its key stands for how it is made."""

    key: str
    archive: Path
    sources: Path

    @property
    def exists(self) -> bool:
        return self.archive.exists() and self.sources.exists()

    @property
    def identity(self) -> str:
        """How and when it was made: made again, it has newer packages."""
        return f"{self.key}-{self.archive.stat().st_mtime_ns}"


def in_cache(cache: Path) -> Base:
    key = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    return Base(key, cache / f"{SUITE}-{key}.tar", cache / f"{SUITE}-{key}.list")


def make(wanted: Base) -> None:
    """Make it anew; nobody sees half of it."""
    unfinished = wanted.archive.with_suffix(".new.tar")
    command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=apt", "--format=tar"]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
    command += [f"--customize-hook=copy-out /etc/apt/sources.list {wanted.sources.parent}"]
    command += [f'--customize-hook=cd "$1" && rm -rf {REMOVED}']
    command += [SUITE, str(unfinished), *debian_sources(SUITE)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"can't make a base of Debian {SUITE}:\n{done.stdout[-4000:]}")
    (wanted.sources.parent / "sources.list").rename(wanted.sources)
    unfinished.rename(wanted.archive)
