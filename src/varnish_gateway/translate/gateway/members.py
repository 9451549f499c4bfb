"""Which ListenerSets belong to which Gateway.

In:   ListenerSets as they are settled.
Out:  the ListenerSets of a Gateway, and how many of them are accepted.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from varnish_gateway.translate.incremental.claims import rank

if TYPE_CHECKING:
    from collections.abc import Iterable

    from varnish_gateway.api import Key
    from varnish_gateway.translate.gateway.listener_sets import SettledSet


class Members:
    """``accepted`` counts by Gateway."""

    def __init__(self) -> None:
        self.accepted: Counter[Key] = Counter()
        self._sets: dict[Key, dict[Key, SettledSet]] = {}

    def put(self, key: Key, before: SettledSet | None, after: SettledSet | None) -> Iterable[Key]:
        """Take in a ListenerSet; return the Gateways that it concerns."""
        if before is not None:
            del self._sets[before.gateway][key]
            self.accepted[before.gateway] -= before.refused is None
        if after is not None:
            self._sets.setdefault(after.gateway, {})[key] = after
            self.accepted[after.gateway] += after.refused is None
        concerned = {one.gateway: None for one in (before, after) if one is not None}
        for gateway in concerned:
            if not self._sets[gateway]:
                del self._sets[gateway], self.accepted[gateway]
        return concerned

    def of(self, gateway: Key) -> list[SettledSet]:
        """Return the ListenerSets of a Gateway in the order of precedence: by age, then by name."""
        sets = self._sets.get(gateway, {})
        return sorted(sets.values(), key=lambda found: rank(found.draft.created, found.key))
