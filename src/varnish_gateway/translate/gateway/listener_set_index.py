"""The index of ListenerSets by Gateway: the only one, also for the operator and ``vgw run``.

In:   ListenerSets as they are in the cluster or in files.
Out:  the Gateway that a ListenerSet names as its parent, and the ListenerSets that name a Gateway.
Whether the Gateway accepts them is for listener_sets.py to decide. A lookup costs what it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway import api
from varnish_gateway.api.gateway_networking import GROUP
from varnish_gateway.translate.incremental.claims import rank

if TYPE_CHECKING:
    from varnish_gateway.api import Key
    from varnish_gateway.translate.incremental.claims import Rank


class ListenerSetIndex:
    def __init__(self) -> None:
        self._gateways: dict[Key, Key] = {}
        self._sets: dict[Key, dict[Key, Rank]] = {}

    def put(self, key: Key, listener_set: api.Object | None) -> None:
        """Index a ListenerSet that was created, changed or, with None, deleted."""
        if (before := self._gateways.pop(key, None)) is not None:
            del self._sets[before][key]
            if not self._sets[before]:
                del self._sets[before]
        if isinstance(listener_set, api.ListenerSet) and has_gateway(listener_set):
            gateway = self._gateways[key] = listener_set.gateway
            self._sets.setdefault(gateway, {})[key] = rank(listener_set.created, key)

    def gateway_of(self, key: Key) -> Key:
        """Return the Gateway of a ListenerSet; any other key is its own."""
        return self._gateways.get(key, key)

    def of(self, gateway: Key) -> list[Key]:
        """Return the ListenerSets of a Gateway in the order of precedence: the oldest first, then by name."""
        sets = self._sets.get(gateway)
        return sorted(sets, key=sets.__getitem__) if sets else []


def has_gateway(listener_set: api.ListenerSet) -> bool:
    """Return whether the parent is a Gateway; other kinds of parents are not ours."""
    parent = listener_set.spec.parent_ref
    return (parent.group, parent.kind) == (GROUP, api.Gateway.kind)
