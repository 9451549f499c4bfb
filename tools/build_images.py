"""Build the images of the operator and the gateway: ``build_images.py [--anew] [--for-tests]``.

In:   images/Containerfile and the sources that it copies; the chart, which names the images.
Out:  build/images/operator.tar and build/images/gateway.tar. For tests also libvmod_ghost_panic.so,
      made for the varnishd of the gateway's image.

The base and every layer are kept in a cache outside the tree that all checkouts of this user
share. The first build takes minutes, one after a change of Python code seconds; without a change
nothing is built. --anew makes the base again, with the packages that Debian has now.
"""

import argparse
import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from imaging import debian, inputs, machine
from imaging.buildah import Buildah

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "build" / "images"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "varnish-gateway" / "images"
TAKES = {
    "operator": "five minutes the first time, half a minute after a change of Python code",
    "gateway": "a minute the first time",
    "panic": "half a minute",
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the images of the operator and the gateway.")
    parser.add_argument("--anew", action="store_true", help="make the base again, with the packages of today")
    parser.add_argument("--for-tests", action="store_true", help="also the VMOD that panics on demand")
    asked = parser.parse_args()
    if os.geteuid() != 0:
        print("build_images: please run it as root: it makes a root file system", file=sys.stderr)
        return 1
    try:
        with _locked(CACHE / "lock"):
            _make_all(_base(anew=asked.anew), for_tests=asked.for_tests)
    except RuntimeError as error:
        print(f"build_images: {error}", file=sys.stderr)
        return 1
    return 0


def _base(*, anew: bool) -> debian.Base:
    base = debian.in_cache(CACHE)
    if anew or not base.exists:
        with _timed("the base, out of Debian's packages", "a minute"):
            debian.make(base)
    return base


def _make_all(base: debian.Base, *, for_tests: bool) -> None:
    buildah = Buildah(CACHE / "store", TARGET / "build.log")
    made_from = inputs.digest(ROOT, base.identity)
    for stage in ("operator", "gateway"):
        name = inputs.default_name(ROOT, stage)
        if (file := _outdated(f"{stage}.tar", f"{name} {made_from}")) is not None:
            _build(buildah, base, stage, name)
            file.keep(partial(buildah.save, name))
    if for_tests and (file := _outdated("libvmod_ghost_panic.so", made_from)) is not None:
        _build(buildah, base, "panic", "localhost/varnish-gateway-panic")
        file.keep(partial(buildah.copy_out, "localhost/varnish-gateway-panic", "/panic/libvmod_ghost.so"))


class _File:
    """A product and the stamp that says what it was made from."""

    def __init__(self, path: Path, made_from: str) -> None:
        self._path, self._made_from = path, made_from
        self._stamp = path.with_name(f".{path.name}.made-from")

    @property
    def current(self) -> bool:
        return self._path.exists() and self._stamp.exists() and self._stamp.read_text() == self._made_from

    def keep(self, write: Callable[[Path], None]) -> None:
        """Have it written; nobody sees half of it."""
        unfinished = self._path.with_name(f".{self._path.name}.new")
        unfinished.unlink(missing_ok=True)
        write(unfinished)
        unfinished.rename(self._path)
        self._stamp.write_text(self._made_from)
        print(f"{self._path.relative_to(ROOT)}: {self._path.stat().st_size / 1e6:.0f} MB", flush=True)


def _outdated(name: str, made_from: str) -> _File | None:
    """Return the product if it has to be made again."""
    TARGET.mkdir(parents=True, exist_ok=True)
    file = _File(TARGET / name, made_from)
    return None if file.current else file


def _build(buildah: Buildah, base: debian.Base, stage: str, name: str) -> None:
    with _timed(f"{stage} ({name})", TAKES[stage]), tempfile.TemporaryDirectory() as secrets:
        arguments = {"BASE": buildah.base(base), "VERSION": inputs.version(ROOT)}
        told = machine.write_secrets(Path(secrets), base.sources)
        buildah.build(ROOT, stage, name, arguments=arguments, secrets=told)


@contextmanager
def _timed(what: str, takes: str) -> Iterator[None]:
    print(f"building {what}: {takes}", flush=True)
    started = time.monotonic()
    yield
    print(f"built {what} in {time.monotonic() - started:.0f} s", flush=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock while building, so that two checkouts don't build the same thing at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another checkout builds images: waiting for it", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
