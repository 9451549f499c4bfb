"""The lock of a work directory."""

import os
import subprocess
import sys

import pytest

from support.source_tree import ROOT
from varnish_gateway import errors
from varnish_gateway.dataplane.process.lock import LOCK_FILE, exclusive, is_abandoned

HOLDER = """
import sys, time
from pathlib import Path
from varnish_gateway.dataplane.process.lock import exclusive
with exclusive(Path(sys.argv[1]), "WORK_DIR"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_second_holder_is_told_who_holds_the_directory(tmp_path):
    message = rf"--work-dir: {tmp_path} is in use by process {os.getpid()} \(.+\); stop it, or choose another"
    with (
        exclusive(tmp_path, "WORK_DIR"),
        pytest.raises(errors.BadSettings, match=message),
        exclusive(tmp_path, "--work-dir"),
    ):
        pass
    with exclusive(tmp_path, "WORK_DIR"):
        assert (tmp_path / LOCK_FILE).read_text().startswith(f"{os.getpid()} ")


def test_killed_holder_leaves_no_stale_lock(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(errors.BadSettings, match=f"process {holder.pid} "), exclusive(tmp_path, "WORK_DIR"):
            pass
        holder.kill()
        holder.wait()
        assert is_abandoned(tmp_path)
        with exclusive(tmp_path, "WORK_DIR"):
            assert not is_abandoned(tmp_path)


def test_directory_that_no_process_has_held_is_not_abandoned(tmp_path):
    assert not is_abandoned(tmp_path)
    (tmp_path / LOCK_FILE).touch()
    assert not is_abandoned(tmp_path), "a process is about to lock it"


def test_children_of_the_holder_do_not_keep_the_lock(tmp_path):
    """A varnishd that outlives its chaperone for a moment must not exclude the next chaperone."""
    with exclusive(tmp_path, "WORK_DIR"):
        child = subprocess.Popen(["/bin/sh", "-c", "echo; exec sleep 60"], close_fds=False, stdout=subprocess.PIPE)
        child.stdout.readline()
    try:
        with exclusive(tmp_path, "WORK_DIR"):
            pass
    finally:
        child.kill()
        child.communicate()


def test_directory_that_can_not_hold_a_lock_is_reported(tmp_path):
    (tmp_path / LOCK_FILE).mkdir()
    with pytest.raises(errors.BadSettings, match=r"--work-dir: can't open .*/lock: Is a directory"):
        exclusive(tmp_path, "--work-dir").__enter__()
