"""A machine runs one cluster, and a crash leaves nothing to clean up."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import lock

TOOLS = Path(__file__).parents[3] / "tools"


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "cluster.lock"


def test_second_holder_is_told_the_first_one(path):
    with lock.acquire(path) as held:
        lock.sign(held, root="/somewhere", node=4711)
        with pytest.raises(lock.Held, match=r"process 4711, started .* from /somewhere"):
            lock.acquire(path)


def test_a_killed_holder_holds_nothing(path):
    code = (
        "import sys; from pathlib import Path; from cluster import lock;"
        "held = lock.acquire(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, "PYTHONPATH": str(TOOLS)}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        assert lock.is_held(path)
        holder.kill()
        holder.wait()
        assert not lock.is_held(path)
        lock.acquire(path).close()


def test_the_lock_is_held_for_as_long_as_anyone_has_it_from_the_holder(path):
    held = lock.acquire(path)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[held.fileno()]) as heir:
        held.close()
        assert lock.is_held(path)
        heir.stdin.close()
        heir.wait()
    assert not lock.is_held(path)


def test_removed_lock_leaves_no_file_and_can_be_locked_again(path):
    held = lock.acquire(path)
    lock.remove(held, path)
    assert not path.exists()
    with lock.acquire(path):
        assert lock.is_held(path)


def test_waiting_process_gets_a_released_lock(path):
    held = lock.acquire(path)
    holders = []

    def free_it(who: str) -> None:
        holders.append(who)
        held.close()

    with lock.acquire(path, wait=10, waiting=free_it):
        assert len(holders) == 1
