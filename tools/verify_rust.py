"""Verify the Rust crates: ``verify_rust.py loom|asan|fuzz|miri|tsan``.

In:   ghost/, and a Rust toolchain. Sanitizers and coverage need a flag that stable compilers accept only
      with RUSTC_BOOTSTRAP; Miri and ThreadSanitizer need a nightly toolchain.
Out:  the exit status of the check. Where the toolchain lacks something, 2, and what to install.
"""

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GHOST = ROOT / "ghost"
BUILD = ROOT / "build"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "varnish-gateway"
TARGETS = Path(os.environ.get("CARGO_TARGET_DIR", CACHE / "target"))

SANITIZED_VMOD = BUILD / "libvmod_ghost_asan.so"
SANITIZED_TESTS = (
    "tests/sanitizer",
    "tests/varnish/test_cache_policy_basics.py",
    "tests/varnish/test_vmod_backend_list.py",
    "tests/varnish/test_vmod_reload.py",
    "tests/varnish/test_vmod_routing.py",
    "tests/varnish/test_vmod_shares.py",
    "tests/varnish/test_vmod_uploads.py",
    "tests/varnish/test_vmod_websocket.py",
)
"""What ``make test`` runs."""
MORE_SANITIZED_TESTS = (
    "tests/varnish/test_cache_policy_answers.py",
    "tests/varnish/test_cache_policy_content.py",
    "tests/varnish/test_cache_policy_freshness.py",
    "tests/varnish/test_cache_policy_requests.py",
    "tests/varnish/test_cache_policy_stale.py",
    "tests/varnish/test_vmod_faults.py",
    "tests/varnish/test_vmod_rejections.py",
    "tests/varnish/test_vmod_retries.py",
    "tests/varnish/test_vmod_sending.py",
)
# The sanitizer keeps what is freed, to notice that it is used; and what it checks takes longer.
NOT_SANITIZED = "not memory_is_flat and not memory_is_bounded and not costs_what_there_is"

FUZZED = ("host", "path", "headers", "wire", "server_name", "cache")
COVERAGE = (
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
)


class Missing(Exception):
    """The toolchain lacks something."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check", choices=CHECKS)
    parser.add_argument("--quick", action="store_true", help="asan: leave out the slower modules of tests")
    parser.add_argument("--seconds", type=int, help="fuzz each target for so long, with a random seed")
    arguments = parser.parse_args()
    try:
        if arguments.seconds is not None:
            fuzz(arguments.seconds)
        elif arguments.quick:
            asan(())
        else:
            CHECKS[arguments.check]()
    except Missing as missing:
        print(f"{arguments.check}: {missing}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as failed:
        return failed.returncode or 1
    return 0


def loom() -> None:
    """Run every interleaving of the models in ghost-sync, and of those in ghost-core."""
    models = [["ghost-sync", "--test", "models"], ["ghost-core", "--lib", "shares::models"]]
    for package in models:
        _cargo("loom", ["test", "--release", "--package", *package], flags=["--cfg=loom"])


def asan(more: Sequence[str] = MORE_SANITIZED_TESTS) -> None:
    """Run the tests of the crates, and tests with varnishd, with AddressSanitizer."""
    flags, host = ["-Zsanitizer=address"], _host()
    runtime = _shared_runtime("libasan.so")
    quick = {"CARGO_PROFILE_DEV_OPT_LEVEL": "2", "PROPTEST_CASES": "32"}
    tests = ["test", "--target", host, "--package", "ghost-core", "--package", "ghost-sync", "--tests"]
    _cargo("asan", tests, quick, flags=flags)
    vmod = ["build", "--target", host, "--package", "vmod-ghost", "--features", "test-panic,test-memory"]
    _cargo("asan", vmod, quick, flags=flags)
    BUILD.mkdir(exist_ok=True)
    shutil.copy(TARGETS / "asan" / host / "debug" / "libvmod_ghost.so", SANITIZED_VMOD)
    environment = {
        "GHOST_VMOD": str(SANITIZED_VMOD),
        "GHOST_VMOD_PANIC": str(SANITIZED_VMOD),
        "GHOST_SANITIZER": str(runtime),
    }
    _run([ROOT / ".venv" / "bin" / "pytest", *SANITIZED_TESTS, *more, "-k", NOT_SANITIZED], environment)


def fuzz(seconds: int | None = None) -> None:
    """Fuzz each target: for a fixed number of runs with a fixed seed, so that CI repeats itself, or for so long."""
    host = _host()
    flags = ["-Zsanitizer=address", *COVERAGE]
    manifest = ["--manifest-path", "fuzz/Cargo.toml"]
    _cargo("fuzz", ["build", "--release", "--bins", "--target", host, *manifest], flags=flags)
    _cargo("fuzz-corpus", ["test", "--test", "corpus", *manifest])
    found = BUILD / "fuzz"
    found.mkdir(parents=True, exist_ok=True)
    limits = ["-runs=200000", "-max_total_time=7", "-seed=1"] if seconds is None else [f"-max_total_time={seconds}"]
    for target in FUZZED:
        options = ["-max_len=4096", "-timeout=10", "-rss_limit_mb=1024", "-print_final_stats=1"]
        with tempfile.TemporaryDirectory() as new, (found / f"{target}.log").open("w+") as log:
            program = TARGETS / "fuzz" / host / "release" / target
            corpora = [new, GHOST / "fuzz" / "corpus" / target]
            command = [program, *corpora, *limits, *options, f"-artifact_prefix={found}/"]
            done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
            log.seek(0)
            _report(target, log.read(), done.returncode)


def _report(target: str, log: str, status: int) -> None:
    units = re.search(r"number_of_executed_units: *(\d+)", log)
    if status != 0 or units is None:
        print(log[-10_000:], file=sys.stderr)
        raise subprocess.CalledProcessError(status or 1, target)
    print(f"fuzzed {target}: {int(units[1]):,} inputs", flush=True)


def miri() -> None:
    """Interpret the tests of ghost-sync, and those of ghost-core that parse."""
    _need_nightly("miri", "rust-src")
    _cargo("miri", ["+nightly", "miri", "test", "--package", "ghost-sync", "--tests"])
    parsers = ["host::", "target::", "filters::", "timing::", "backends::"]
    core = ["+nightly", "miri", "test", "--package", "ghost-core", "--test", "core", "--", *parsers]
    _cargo("miri", core, {"PROPTEST_CASES": "2", "MIRIFLAGS": "-Zmiri-disable-isolation"})


def tsan() -> None:
    """Run the tests of ghost-sync and ghost-core with ThreadSanitizer, and a standard library built with it."""
    _need_nightly("rust-src")
    tests = [
        "test",
        "-Zbuild-std",
        "--target",
        _host(),
        "--package",
        "ghost-sync",
        "--package",
        "ghost-core",
        "--tests",
    ]
    _cargo("tsan", ["+nightly", *tests], flags=["-Zsanitizer=thread"])


CHECKS: dict[str, Callable[[], None]] = {"loom": loom, "asan": asan, "fuzz": fuzz, "miri": miri, "tsan": tsan}


# -- toolchains --------------------------------------------------------------------------


def _host() -> str:
    text = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"^host: (.*)$", text, re.MULTILINE)
    if found is None:
        raise Missing("rustc doesn't name its target")
    return found[1]


def _shared_runtime(name: str) -> Path:
    """Return gcc's runtime of a sanitizer: varnishd isn't built with one, so it has to be loaded before varnishd."""
    asked = ["gcc", f"-print-file-name={name}"]
    path = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    if not path.is_absolute():
        raise Missing(f"gcc has no {name}: install the package libgcc-12-dev, or that of your version of gcc")
    return path.resolve()


def _need_nightly(*components: str) -> None:
    remedy = f"rustup toolchain install nightly && rustup +nightly component add {' '.join(components)}"
    if shutil.which("rustup") is None:
        raise Missing(f"there is no rustup to ask for a nightly toolchain. With rustup: {remedy}")
    asked = ["rustup", "component", "list", "--toolchain", "nightly", "--installed"]
    listed = subprocess.run(asked, capture_output=True, text=True, check=False)
    lacking = [name for name in components if not re.search(rf"^{name}\b", listed.stdout, re.MULTILINE)]
    if listed.returncode != 0 or lacking:
        raise Missing(f"no nightly toolchain with {', '.join(components)} is installed. Not run. Install: {remedy}")


def _cargo(
    folder: str, arguments: Sequence[str], more: Mapping[str, str] | None = None, *, flags: Sequence[str] = ()
) -> None:
    """Run cargo with flags for the compiler, and a target directory of its own: flags are part of every build."""
    toolchain = [one for one in arguments[:1] if one.startswith("+")]
    rest = list(arguments[len(toolchain) :])
    words = list(itertools.takewhile(lambda word: not word.startswith("-"), rest))  # "test", or "miri test"
    environment = {"CARGO_TARGET_DIR": str(TARGETS / folder), "PYTHON": "/usr/bin/python3", **(more or {})}
    if flags:
        environment |= {"RUSTC_BOOTSTRAP": "1", "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags)}
    _run(["cargo", *toolchain, *words, "--quiet", "--locked", *rest[len(words) :]], environment, GHOST)


def _run(command: Sequence[str | Path], more: Mapping[str, str] | None = None, directory: Path = ROOT) -> None:
    subprocess.run(command, cwd=directory, env={**os.environ, **(more or {})}, check=True)


if __name__ == "__main__":
    sys.exit(main())
