"""Build the programs that the tests of the operator run: ``build_binaries.py [NAME ...]``.

In:   tools/binaries/NAME: a Go module of its own, pinned by go.mod and go.sum. They come from
      the Go module proxy: etcd, Kubernetes (one binary for all its parts) and helm.
Out:  build/bin/NAME, a link into a cache outside the tree that all checkouts of this user share.
      It is keyed by everything that the build reads, so what is there already is not built again.
"""

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MODULES = ROOT / "tools" / "binaries"
LINKS = ROOT / "build" / "bin"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "varnish-gateway" / "binaries"


class Binary(NamedTuple):
    """One program: what to build, the module that its version is read from, other names for it."""

    package: str
    versioned_by: str
    takes: str
    names: tuple[str, ...] = ()


BINARIES = {
    "etcd": Binary("go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", "about a minute"),
    "kubernetes": Binary(
        ".",
        "k8s.io/kubernetes",
        "about ten minutes on two cores",
        ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"),
    ),
    "helm": Binary("helm.sh/helm/v3/cmd/helm", "helm.sh/helm/v3", "about a minute"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the programs that the tests of the operator run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BINARIES)}; all by default")
    names = parser.parse_args().names or list(BINARIES)
    if unknown := [name for name in names if name not in BINARIES]:
        parser.error(f"no such program: {', '.join(unknown)}")
    try:
        for name in names:
            _link(name, _built(name))
    except RuntimeError as error:
        print(f"build_binaries: {error}", file=sys.stderr)
        return 1
    return 0


def _link(name: str, binary: Path) -> None:
    LINKS.mkdir(parents=True, exist_ok=True)
    for link in (name, *BINARIES[name].names):
        new = LINKS / f".{link}.new"
        new.unlink(missing_ok=True)
        new.symlink_to(binary)
        new.rename(LINKS / link)


def _built(name: str) -> Path:
    """Return the program in the cache, built if it is not there."""
    go = shutil.which("go")
    if go is None:
        raise RuntimeError(f"Go is needed to build {name}, and there is no go on PATH")
    target = CACHE / f"{name}-{_key(name, go)}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE / f"{name}.lock"):
        if not target.exists():
            _build(name, go, target)
    return target


def _key(name: str, go: str) -> str:
    """Return a short hash of everything that the build reads."""
    digest = hashlib.sha256(subprocess.check_output([go, "env", "GOVERSION", "GOARCH"]))
    digest.update(Path(__file__).read_bytes())
    for path in sorted((MODULES / name).iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _build(name: str, go: str, target: Path) -> None:
    binary = BINARIES[name]
    module = MODULES / name
    version = _version(module / "go.mod", binary.versioned_by)
    print(f"building {name} {version} ({binary.takes} the first time)", flush=True)
    started = time.monotonic()
    new = target.with_suffix(".new")
    command = [go, "build", "-mod=readonly", "-trimpath", "-ldflags", _linker_flags(name, version)]
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
    done = subprocess.run(
        [*command, "-o", str(new), binary.package],
        cwd=module,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"can't build {name} {version}:\n{done.stdout[-4000:]}")
    new.rename(target)
    print(f"built {name} in {time.monotonic() - started:.0f} s", flush=True)


def _version(go_mod: Path, module: str) -> str:
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", go_mod.read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{go_mod} does not require {module}")
    return found[1]


def _linker_flags(name: str, version: str) -> str:
    """Return the flags of the linker: no symbol table, and Kubernetes is told its version."""
    flags = ["-s", "-w"]
    if name == "kubernetes":
        major, minor, _ = version.removeprefix("v").split(".", 2)
        stamp = "k8s.io/component-base/version"
        told = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        flags += [f"-X {stamp}.{variable}={value}" for variable, value in told.items()]
    return " ".join(flags)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock while building, so that two checkouts don't build the same thing at once."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
