"""The base of both images: mmdebstrap's smallest Debian system that includes apt.

In:   the name of the release; this machine's package sources for Debian, if it has any.
Out:  in a cache, an archive of the root file system and the package sources that it came from. The
      archive contains no package sources, no documentation and no files of this machine.
"""

import hashlib
import subprocess
from pathlib import Path
from typing import NamedTuple

from imaging.machine import debian_sources

SUITE = "trixie"
EXCLUDED = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*", "/usr/share/lintian/*")
"""dpkg also excludes these from packages that an image installs on the base."""
REMOVED = "etc/apt/sources.list etc/hostname etc/resolv.conf var/lib/apt/lists/* var/cache/* var/log/*"


class Base(NamedTuple):
    """The paths of a base in the cache, which may not exist yet; the key identifies its recipe."""

    key: str
    archive: Path
    sources: Path

    @property
    def exists(self) -> bool:
        return self.archive.exists() and self.sources.exists()

    @property
    def identity(self) -> str:
        """The recipe and the time of the build: a later build contains newer packages."""
        return f"{self.key}-{self.archive.stat().st_mtime_ns}"


def in_cache(cache: Path) -> Base:
    key = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    return Base(key, cache / f"{SUITE}-{key}.tar", cache / f"{SUITE}-{key}.list")


def build(base: Base) -> None:
    """Build the base and replace the cached one atomically."""
    unfinished = base.archive.with_suffix(".new.tar")
    command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=apt", "--format=tar"]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in EXCLUDED]
    command += [f"--customize-hook=copy-out /etc/apt/sources.list {base.sources.parent}"]
    command += [f'--customize-hook=cd "$1" && rm -rf {REMOVED}']
    command += [SUITE, str(unfinished), *debian_sources(SUITE)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"can't build a base from Debian {SUITE}:\n{done.stdout[-4000:]}")
    (base.sources.parent / "sources.list").rename(base.sources)
    unfinished.rename(base.archive)
