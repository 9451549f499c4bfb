"""The index of ListenerSets by Gateway: the only one, also for the operator and ``vgw run``.

In:   ListenerSets as they are in the cluster or in files.
Out:  the Gateway that a ListenerSet names as its parent, and the ListenerSets that name a Gateway.
Whether the Gateway accepts them is for listener_sets.py to decide. A lookup costs what it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway import api
from varnish_gateway.api.gateway_networking import GROUP
from varnish_gateway.translate.incremental.index import OwnerIndex
from varnish_gateway.translate.precedence import precedence

if TYPE_CHECKING:
    from varnish_gateway.api import Key


class ListenerSetIndex(OwnerIndex):
    def __init__(self) -> None:
        super().__init__(api.ListenerSet.kind, parent)

    def gateway_of(self, key: Key) -> Key:
        """Return the Gateway of a ListenerSet; any other key is its own."""
        return self.owner(key) or key

    def of(self, gateway: Key) -> list[Key]:
        """Return the ListenerSets of a Gateway in the order of precedence: the oldest first, then by name."""
        sets = self.members(gateway)
        return sorted(sets, key=lambda key: precedence(sets[key].created, key))


def parent(listener_set: api.Object) -> Key | None:
    """Return the Gateway that is the parent; other kinds of parents are not ours."""
    if not isinstance(listener_set, api.ListenerSet):
        return None
    ref = listener_set.spec.parent_ref
    return listener_set.gateway if (ref.group, ref.kind) == (GROUP, api.Gateway.kind) else None
