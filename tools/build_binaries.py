"""Build the third-party programs that tests run: ``build_binaries.py [NAME or GROUP ...]``.

In:   tools/binaries/MODULE: one Go module per directory, pinned by go.mod and go.sum. The sources
      come from the Go module proxy. The group ``apiserver`` (the default) is etcd, Kubernetes (one
      binary for all its parts) and helm; the group ``cluster`` is what a cluster with nodes needs
      in addition.
Out:  build/bin/NAME, a link into a cache outside the tree that all checkouts of this user share.
      A hash of everything that the build reads is the cache key, so nothing is built twice.
"""

import argparse
import fcntl
import hashlib
import json
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
ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}


class Binary(NamedTuple):
    """One program: what to build, the module that determines its version, and its other names."""

    package: str
    versioned_by: str
    duration: str
    names: tuple[str, ...] = ()
    module: str = ""  # directory in tools/binaries, if not the program's name
    kind: str = "program"  # or "test" (package's tests as a program), "c" (package is a C file of the module)


BINARIES = {
    "etcd": Binary("go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", "about a minute"),
    "kubernetes": Binary(
        ".",
        "k8s.io/kubernetes",
        "about ten minutes on two cores",
        ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"),
    ),
    "helm": Binary("helm.sh/helm/v3/cmd/helm", "helm.sh/helm/v3", "about a minute"),
    "conformance": Binary(".", "sigs.k8s.io/gateway-api/conformance", "about two minutes", kind="test"),
    "echo-basic": Binary(
        "sigs.k8s.io/gateway-api/conformance/echo-basic",
        "sigs.k8s.io/gateway-api/conformance",
        "a few seconds",
        module="conformance",
    ),
    "coredns": Binary(".", "github.com/coredns/coredns", "about a minute"),
    "pause": Binary("build/pause/linux/pause.c", "k8s.io/kubernetes", "a second", module="kubernetes", kind="c"),
}
GROUPS = {
    "apiserver": ("etcd", "kubernetes", "helm"),
    "cluster": ("conformance", "echo-basic", "coredns", "pause"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the third-party programs that tests run.")
    known = ", ".join([*BINARIES, *GROUPS])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {known}; apiserver by default")
    asked = parser.parse_args().names or ["apiserver"]
    names = [name for one in asked for name in GROUPS.get(one, (one,))]
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
    """Return the program's path in the cache; build it if it is missing."""
    go = shutil.which("go")
    if go is None:
        raise RuntimeError(f"building {name} needs Go, and there is no go on PATH")
    target = CACHE / f"{name}-{_key(name, go)}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE / f"{name}.lock"):
        if not target.exists():
            _build(name, go, target)
    return target


def _key(name: str, go: str) -> str:
    """Return a short hash of everything that the build reads."""
    digest = hashlib.sha256(subprocess.check_output([go, "env", "GOVERSION", "GOARCH"]))
    digest.update(repr([*_command(name, "go", Path("target")), sorted(ENVIRONMENT.items())]).encode())
    for path in sorted(_module(name).iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _build(name: str, go: str, target: Path) -> None:
    version = _version(name)
    print(f"building {name} {version} ({BINARIES[name].duration} the first time)", flush=True)
    started = time.monotonic()
    new = target.with_suffix(".new")
    where = _downloaded(name, go) if BINARIES[name].kind == "c" else _module(name)
    done = subprocess.run(
        _command(name, go, new),
        cwd=where,
        env=os.environ | ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"can't build {name} {version}:\n{done.stdout[-4000:]}")
    new.rename(target)
    print(f"built {name} in {time.monotonic() - started:.0f} s", flush=True)


def _command(name: str, go: str, target: Path) -> list[str]:
    """Return the command that builds a program; it runs in the directory of the source."""
    binary = BINARIES[name]
    if binary.kind == "c":
        return ["gcc", "-Os", "-static", "-s", f"-DVERSION={_version(name)}", "-o", str(target), binary.package]
    verb = ["test", "-c"] if binary.kind == "test" else ["build"]
    flags = ["-mod=readonly", "-trimpath", "-ldflags", _linker_flags(name, _version(name))]
    return [go, *verb, *flags, "-o", str(target), binary.package]


def _downloaded(name: str, go: str) -> Path:
    """Return the directory of the module's source in Go's cache."""
    command = [go, "mod", "download", "-json", BINARIES[name].versioned_by]
    done = subprocess.run(command, cwd=_module(name), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"can't download {name}: {done.stderr.strip() or done.stdout}")
    return Path(json.loads(done.stdout)["Dir"])


def _module(name: str) -> Path:
    return MODULES / (BINARIES[name].module or name)


def _version(name: str) -> str:
    go_mod, module = _module(name) / "go.mod", BINARIES[name].versioned_by
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", go_mod.read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{go_mod} does not require {module}")
    return found[1]


def _linker_flags(name: str, version: str) -> str:
    """Return the linker flags: they omit the symbol table, and set the version of Kubernetes."""
    flags = ["-s", "-w"]
    if name == "kubernetes":
        major, minor, _ = version.removeprefix("v").split(".", 2)
        stamp = "k8s.io/component-base/version"
        variables = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        flags += [f"-X {stamp}.{variable}={value}" for variable, value in variables.items()]
    return " ".join(flags)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock while building, so that two checkouts don't build the same thing at once."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
