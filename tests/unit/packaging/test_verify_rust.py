"""tools/verify_rust.py says what a toolchain lacks, and knows every fuzz target."""

import tomllib

import pytest

import verify_rust
from support.source_tree import ROOT


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Give the only directory in which programs are found."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def run(monkeypatch, check: str) -> int:
    monkeypatch.setattr("sys.argv", ["verify_rust.py", check])
    return verify_rust.main()


@pytest.mark.parametrize("check", ["miri", "tsan"])
@pytest.mark.usefixtures("programs")
def test_without_rustup_a_check_fails_and_names_the_remedy(monkeypatch, capsys, check):
    assert run(monkeypatch, check) == 2
    assert "rustup +nightly component add" in capsys.readouterr().err


def test_without_a_component_a_check_fails_and_names_it(programs, monkeypatch, capsys):
    (programs / "rustup").write_text("#!/bin/sh\necho cargo-x86_64-unknown-linux-gnu\necho rust-src\n")
    (programs / "rustup").chmod(0o755)
    assert run(monkeypatch, "miri") == 2
    error = capsys.readouterr().err
    assert "Not run" in error
    assert "component add miri rust-src" in error


def test_miri_gets_its_command_before_any_option(programs, monkeypatch):
    """Cargo's subcommand of Miri has commands of its own, and rejects an option in the place of one."""
    calls = programs / "calls"
    scripts = {"rustup": "echo miri; echo rust-src", "cargo": f'echo "$*" >> {calls}'}
    for name, script in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    assert run(monkeypatch, "miri") == 0
    begins = {line.split("--")[0].strip() for line in calls.read_text().splitlines()}
    assert begins == {"+nightly miri test"}


def test_every_fuzz_target_runs_and_has_a_corpus():
    manifest = tomllib.loads((ROOT / "ghost/fuzz/Cargo.toml").read_text())
    assert {target["name"] for target in manifest["bin"]} == set(verify_rust.FUZZED)
    corpus = ROOT / "ghost" / "fuzz" / "corpus"
    assert {path.name for path in corpus.iterdir() if any(path.iterdir())} == set(verify_rust.FUZZED)


def test_every_sanitized_test_exists():
    named = (*verify_rust.SANITIZED_TESTS, *verify_rust.MORE_SANITIZED_TESTS)
    assert [name for name in named if not (ROOT / name).exists()] == []
