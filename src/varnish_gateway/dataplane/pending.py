"""Changes from a cluster or from files that are not applied yet.

In:   changes, as they arrive.
Out:  one Change with the effect of all of them. Pure.
Their memory is bounded by what they touch, however long nothing can be applied.
"""

from varnish_gateway.dataplane.change import Change

MOST_CHANGES = 256
"""The list is merged when it gets longer than this, so that adding a change costs little."""


class PendingChanges:
    def __init__(self) -> None:
        self._changes: list[Change] = []

    def __len__(self) -> int:
        """Return the length of the list."""
        return len(self._changes)

    def add(self, change: Change) -> None:
        self._changes.append(change)
        if len(self._changes) > MOST_CHANGES:
            self._changes = [self.drain()]

    def drain(self) -> Change:
        """Return all changes as one and start over."""
        changes, self._changes = self._changes, []
        return Change().merge(*changes)
