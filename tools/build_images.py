"""Build the images of the operator and the gateway: ``build_images.py [--refresh-base] [--for-tests]``.

In:   images/Containerfile and the sources that it copies; the chart, which names the images.
Out:  build/images/operator.tar and build/images/gateway.tar. With --for-tests also
      libvmod_ghost_panic.so, built against the varnishd of the gateway image.

A cache outside the tree, shared by all checkouts of this user, keeps the base and every layer. The
first build takes minutes; a build after a change of Python code takes seconds; without a change
nothing is built. --refresh-base builds the base again, with Debian's current packages.
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
DURATIONS = {
    "operator": "five minutes the first time, half a minute after a change of Python code",
    "gateway": "a minute the first time",
    "panic": "half a minute",
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the images of the operator and the gateway.")
    parser.add_argument("--refresh-base", action="store_true", help="rebuild the base with Debian's current packages")
    parser.add_argument("--for-tests", action="store_true", help="also build the VMOD that panics on demand")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("build_images: run this as root: it creates a root file system", file=sys.stderr)
        return 1
    try:
        with _locked(CACHE / "lock"):
            _build_all(_base(refresh=options.refresh_base), for_tests=options.for_tests)
    except RuntimeError as error:
        print(f"build_images: {error}", file=sys.stderr)
        return 1
    return 0


def _base(*, refresh: bool) -> debian.Base:
    base = debian.in_cache(CACHE)
    if refresh or not base.exists:
        with _timed("the base from Debian packages", "a minute"):
            debian.build(base)
    return base


def _build_all(base: debian.Base, *, for_tests: bool) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    buildah = Buildah(CACHE / "store", TARGET / "build.log")
    made_from = inputs.digest(ROOT, base.identity)
    for stage in ("operator", "gateway"):
        name = inputs.default_name(ROOT, stage)
        product = _Product(f"{stage}.tar", f"{name} {made_from}")
        if not product.current:
            _build(buildah, base, stage, name)
            product.replace(partial(buildah.save, name))
    product = _Product("libvmod_ghost_panic.so", made_from)
    if for_tests and not product.current:
        _build(buildah, base, "panic", "localhost/varnish-gateway-panic")
        product.replace(partial(buildah.copy_out, "localhost/varnish-gateway-panic", "/panic/libvmod_ghost.so"))


class _Product:
    """A file in build/images and the stamp that records its inputs."""

    def __init__(self, name: str, made_from: str) -> None:
        self._path, self._made_from = TARGET / name, made_from
        self._stamp = TARGET / f".{name}.made-from"

    @property
    def current(self) -> bool:
        return self._path.exists() and self._stamp.exists() and self._stamp.read_text() == self._made_from

    def replace(self, write: Callable[[Path], None]) -> None:
        """Replace the file atomically by the one that ``write`` produces."""
        unfinished = self._path.with_name(f".{self._path.name}.new")
        unfinished.unlink(missing_ok=True)
        write(unfinished)
        unfinished.rename(self._path)
        self._stamp.write_text(self._made_from)
        print(f"{self._path.relative_to(ROOT)}: {self._path.stat().st_size / 1e6:.0f} MB", flush=True)


def _build(buildah: Buildah, base: debian.Base, stage: str, name: str) -> None:
    with _timed(f"{stage} ({name})", DURATIONS[stage]), tempfile.TemporaryDirectory() as secrets:
        arguments = {"BASE": buildah.base(base), "VERSION": inputs.version(ROOT)}
        files = machine.write_secrets(Path(secrets), base.sources)
        buildah.build(ROOT, stage, name, arguments=arguments, secrets=files)


@contextmanager
def _timed(what: str, duration: str) -> Iterator[None]:
    print(f"building {what}: {duration}", flush=True)
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
            print("another checkout is building images: waiting for it", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
