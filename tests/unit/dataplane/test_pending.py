"""Pending changes: their order counts, and their memory is bounded."""

from varnish_gateway.api import Key
from varnish_gateway.dataplane import pending
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.pending import PendingChanges

SLICE = Key("EndpointSlice", "shop", "tea-1")


def test_changes_of_one_slice_take_no_more_memory_while_nothing_can_be_applied():
    """A pod whose ConfigMap stays invalid serves nothing, and its backends come and go."""
    changes = PendingChanges()
    for _ in range(5000):
        changes.add(Change(slices={SLICE: None}))
    assert len(changes) <= pending.MOST_CHANGES


def test_newest_value_counts_however_many_changes_there_are(monkeypatch):
    monkeypatch.setattr(pending, "MOST_CHANGES", 3)
    changes = PendingChanges()
    for number in range(10):
        changes.add(Change(vcl=str(number), routing={number % 4: str(number).encode()}))
        changes.add(Change(listed=frozenset({str(number)})))
    drained = changes.drain()
    assert drained.vcl == "9"
    assert drained.routing == {0: b"8", 1: b"9", 2: b"6", 3: b"7"}
    assert drained.listed == {str(number) for number in range(10)}
    assert changes.drain() == Change()
