"""What a process inside a fence can reach. The kernel decides; real programs ask it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from varnish_gateway.dataplane.process import landlock
from varnish_gateway.dataplane.process.landlock import Fence

pytestmark = pytest.mark.skipif(landlock.missing() is not None, reason="this kernel has no Landlock")

EVERYTHING = Fence(("/",))
SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc")


@pytest.fixture
def sibling():
    """Give a process of the same user outside the fence."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(without_capabilities(["cat"]), env=os.environ | {"TOKEN": "secret"}, **pipes) as process:
        process.stdin.write(b"x")
        process.stdin.flush()
        process.stdout.read(1)  # it runs
        yield process
        process.kill()


def run(fence, *argv):
    return subprocess.run(landlock.command(fence, argv), capture_output=True, text=True, check=False)


def without_capabilities(argv):
    """Return a command line that runs a program as a pod does: root's capabilities open more of /proc."""
    return ["setpriv", "--inh-caps=-all", "--bounding-set=-all", *argv] if os.geteuid() == 0 else argv


def test_program_inside_keeps_its_pid_and_its_arguments():
    with subprocess.Popen(landlock.command(Fence(SYSTEM), ["sh", "-c", "echo $$ $0", "it's"]), stdout=-1) as process:
        assert process.communicate()[0].decode().split() == [str(process.pid), "it's"]


def test_files_outside_can_be_neither_read_nor_changed(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    for directory in (inside, outside):
        directory.mkdir()
        (directory / "file").write_text("text")
    fence = Fence((*SYSTEM, str(inside)), (), (str(outside),))
    assert run(fence, "cat", str(inside / "file")).stdout == "text"
    assert "Permission denied" in run(fence, "cat", str(outside / "file")).stderr
    assert "Permission denied" in run(fence, "cp", "/etc/passwd", str(inside / "file")).stderr
    assert "Permission denied" in run(fence, "ls", str(outside)).stderr
    assert run(Fence(SYSTEM, (str(inside),)), "cp", "/etc/passwd", str(inside / "file")).returncode == 0


def test_children_and_root_stay_inside(tmp_path):
    (tmp_path / "file").write_text("text")
    nested = landlock.command(Fence((*SYSTEM, str(tmp_path))), ["cat", str(tmp_path / "file")])
    fence = Fence((*SYSTEM, *python_paths()))
    assert "Permission denied" in run(fence, "sh", "-c", f"cat {tmp_path}/file").stderr
    assert "Permission denied" in run(fence, *nested).stderr  # a second fence opens nothing


@pytest.mark.parametrize("what", ["environ", "maps", "auxv"])
def test_memory_of_a_process_outside_stays_closed_even_where_proc_is_open(sibling, what):
    read = ["head", "-c", "1", f"/proc/{sibling.pid}/{what}"]
    assert subprocess.run(without_capabilities(read), check=True, capture_output=True).stdout
    fenced = subprocess.run(without_capabilities(landlock.command(EVERYTHING, read)), check=False, capture_output=True)
    assert b"Permission denied" in fenced.stderr


@pytest.mark.parametrize("link", ["fd/0", "root", "cwd"])
def test_files_of_a_process_outside_stay_closed_even_where_proc_is_open(sibling, link):
    read = ["readlink", f"/proc/{sibling.pid}/{link}"]
    assert subprocess.run(without_capabilities(read), check=True, capture_output=True).stdout
    fenced = subprocess.run(without_capabilities(landlock.command(EVERYTHING, read)), check=False, capture_output=True)
    assert fenced.returncode == 1


def test_signals_to_a_process_outside_are_denied(sibling):
    assert run(EVERYTHING, "kill", "-TERM", str(sibling.pid)).returncode != 0
    assert sibling.poll() is None
    os.kill(sibling.pid, signal.SIGTERM)
    assert sibling.wait() == -signal.SIGTERM


def test_program_that_can_not_be_started_is_named():
    failed = run(Fence(("/etc",)), "cat", "/etc/passwd")
    assert failed.returncode == 1
    assert failed.stderr == "Error: can't start cat inside its fence: Permission denied\n"


def test_kernel_without_landlock_is_named(monkeypatch):
    def refused(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(landlock, "_call", refused)
    assert landlock.missing() == "the kernel offers no Landlock (Function not implemented)"


def test_a_trial_leaves_our_own_process_outside(tmp_path):
    assert landlock.missing() is None
    (tmp_path / "file").write_text("text")
    assert (tmp_path / "file").read_text() == "text"


def python_paths():
    """Return what a nested command reads: the interpreter and our file."""
    return (sys.prefix, sys.base_prefix, str(Path(landlock.__file__).parent), "/proc")
