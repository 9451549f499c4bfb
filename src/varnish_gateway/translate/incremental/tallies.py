"""How many values count each label of an owner.

In:   what a value counted before and counts now.
Out:  the counts of an owner, by label. An update costs the difference.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from varnish_gateway.translate.incremental.dependency import Derived

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from varnish_gateway.api.meta import Key

Counted: TypeAlias = "tuple[Key, str]"
"""An owner and a label."""
NONE: AbstractSet[Counted] = frozenset()


class Tallies:
    def __init__(self) -> None:
        self._counts: dict[Key, Counter[str]] = {}

    def update(self, before: AbstractSet[Counted], after: AbstractSet[Counted]) -> Iterable[Derived]:
        """Count a value that changed; return the tallies that changed with it."""
        for owner, label in before - after:
            counts = self._counts[owner]
            counts[label] -= 1
            if not counts[label]:
                del counts[label]
            if not counts:
                del self._counts[owner]
        for owner, label in after - before:
            self._counts.setdefault(owner, Counter())[label] += 1
        return [dependency(owner) for owner in dict.fromkeys(owner for owner, _ in sorted(before ^ after))]

    def of(self, owner: Key) -> Mapping[str, int]:
        """Return the counts of an owner."""
        return self._counts.get(owner, {})


def dependency(owner: Key) -> Derived:
    """Return the dependency on the tally of an owner."""
    return Derived("tally", owner)
