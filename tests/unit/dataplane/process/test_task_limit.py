"""The limit on tasks: the smallest of our cgroup and its parents."""

from pathlib import Path

import pytest

from varnish_gateway.dataplane.process.task_limit import task_limit


def limit(directory: Path, own: str, **files: str) -> int | None:
    """Ask where these files hold limits; a name has "__" for "/"."""
    for name, text in files.items():
        path = directory / name.replace("__", "/") / "pids.max"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (directory / "own").write_text(own)
    return task_limit(directory / "own", directory)


def test_smallest_limit_of_cgroup_and_parents_counts(tmp_path):
    own = "0::/system.slice/vgw.service\n"
    assert limit(tmp_path, own, **{"system.slice": "4915\n", "system.slice__vgw.service": "max\n"}) == 4915


def test_version_1_has_a_directory_for_the_controller(tmp_path):
    own = "8:pids:/docker/one\n4:memory:/docker/one\n0::/\n"
    assert limit(tmp_path, own, pids__docker__one="300\n", memory__docker__one="7\n") == 300


@pytest.mark.parametrize("own", ["0::/\n", "0::/elsewhere\n", "nonsense\n", ""])
def test_no_limit_is_none(tmp_path, own):
    assert limit(tmp_path, own) is None


def test_machine_without_cgroups_has_no_limit(tmp_path):
    assert task_limit(tmp_path / "own", tmp_path) is None
