"""Who may take which cluster down."""

import pytest

from cluster import inside, layout, lifecycle, lock
from cluster.errors import ClusterError

OURS = {"root": str(layout.ROOT), "node": 1}
THEIRS = {"root": "/elsewhere", "node": 2}


@pytest.fixture
def ended(monkeypatch) -> list[int]:
    """Pretend that a cluster runs; return the processes that ``down`` terminated."""
    ended: list[int] = []
    monkeypatch.setattr(lifecycle.os, "kill", lambda pid, _: ended.append(pid))
    monkeypatch.setattr(inside, "node_processes", lambda: [4711])
    monkeypatch.setattr(lock, "is_held", lambda: True)
    monkeypatch.setattr(lifecycle, "clean", lambda: pytest.fail("a cluster of another owner was cleaned up"))
    return ended


def refuse(**_: object) -> None:
    raise lock.Held("taken")


def test_the_cluster_of_another_checkout_is_not_taken_down(monkeypatch, ended):
    monkeypatch.setattr(lock, "holder", lambda: THEIRS)
    with pytest.raises(ClusterError, match="not of this checkout"):
        lifecycle.down(print)
    assert not ended


def test_down_reports_a_cluster_that_started_after_ours(monkeypatch, ended):
    holders = [OURS, THEIRS]
    monkeypatch.setattr(lock, "holder", lambda: holders.pop(0) if len(holders) > 1 else holders[0])
    monkeypatch.setattr(lock, "acquire", refuse)
    messages: list[str] = []
    lifecycle.down(messages.append)
    assert ended == [4711]
    assert "another cluster has taken its place" in messages[0]


def test_a_cluster_that_does_not_end_is_an_error(monkeypatch, ended):
    monkeypatch.setattr(lock, "holder", lambda: OURS)
    monkeypatch.setattr(lock, "acquire", refuse)
    with pytest.raises(lock.Held):
        lifecycle.down(print)
    assert ended == [4711]
