"""Which control groups a cluster uses, and that it leaves none."""

from pathlib import Path

import pytest

from cluster.errors import ClusterError
from cluster.node import cgroups

HYBRID = """\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
"""
UNIFIED = "sysfs /sys sysfs rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n"


def test_hybrid_counts_as_the_first_version_with_every_hierarchy():
    found = cgroups.hierarchies(HYBRID)
    assert found.version == 1
    assert [root.name for root in found.roots] == ["cpu,cpuacct", "memory", "unified"]


def test_the_second_version_has_one_hierarchy():
    assert cgroups.hierarchies(UNIFIED) == cgroups.Hierarchies(2, (Path("/sys/fs/cgroup"),))


def test_missing_cgroups_are_reported():
    with pytest.raises(ClusterError, match="no cgroup file system"):
        cgroups.hierarchies("proc /proc proc rw 0 0\n")


def test_cpuset_is_filled_before_processes_join(tmp_path):
    for file, text in {"cpuset.cpus": "0-1\n", "cpuset.mems": "0\n"}.items():
        (tmp_path / file).write_text(text)
    cgroups.create(cgroups.Hierarchies(1, (tmp_path,)))
    (group,) = cgroups.leftovers(cgroups.Hierarchies(1, (tmp_path,)))
    assert (group / "cpuset.cpus").read_text() == "0-1\n"
    assert (group / "cpuset.mems").read_text() == "0\n"


def test_the_second_version_hands_every_controller_on(tmp_path):
    group = tmp_path / cgroups.CGROUP.lstrip("/")
    group.mkdir()
    for place in (tmp_path, group):
        (place / "cgroup.controllers").write_text("pids\n")
    cgroups.create(cgroups.Hierarchies(2, (tmp_path,)))
    assert (group / "cgroup.subtree_control").read_text() == "+pids"
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+pids"


def test_unavailable_controller_is_named(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("memory\n")
    (tmp_path / "cgroup.subtree_control").mkdir()  # writing to it fails
    with pytest.raises(ClusterError, match="can't hand on the controller memory"):
        cgroups.create(cgroups.Hierarchies(2, (tmp_path,)))


def test_removal_is_recursive_and_repeatable(tmp_path):
    found = cgroups.Hierarchies(1, (tmp_path / "cpu", tmp_path / "memory"))
    for root in found.roots:
        (root / cgroups.CGROUP.lstrip("/") / "kubepods" / "pod1").mkdir(parents=True)
    assert cgroups.remove(found) == []
    assert cgroups.remove(found) == []
    assert not cgroups.leftovers(found)


def test_group_that_can_not_be_removed_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(cgroups, "REMOVAL_SECONDS", 0.1)
    group = tmp_path / cgroups.CGROUP.lstrip("/")
    group.mkdir()
    (group / "tasks").touch()  # a directory that rmdir refuses, as one with processes
    assert cgroups.remove(cgroups.Hierarchies(1, (tmp_path,))) == [group]
