"""Whether the certificates of ListenerSets have room in the one object that carries all of a Gateway's.

In:   Gateways and ListenerSets by themselves, with the files that they ask for.
Out:  the listeners for which there is no room: the Gateway's own have it first, then those of
      older ListenerSets, then those that come first by namespace/name.
A change costs the ListenerSets of its Gateway that have certificates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway.api import Key
from varnish_gateway.translate.tls.termination import Room

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from varnish_gateway.translate.gateway.gateways import Draft
    from varnish_gateway.translate.gateway.listener_set_index import ListenerSetIndex
    from varnish_gateway.translate.gateway.listener_sets import SetDraft

NOBODY: frozenset[str] = frozenset()


class Rooms:
    """``crowded`` are the ids of listeners without room, by ListenerSet. Without a limit nobody is."""

    def __init__(self, limit: int | None, listener_sets: ListenerSetIndex) -> None:
        self.crowded: dict[Key, frozenset[str]] = {}
        self._limit = limit
        self._listener_sets = listener_sets
        self._touched: dict[Key, None] = {}

    def touch(self, gateway: Key) -> None:
        """Note that a Gateway by itself is another one."""
        self._touched[gateway] = None

    def put(self, key: Key, before: SetDraft | None, after: SetDraft | None) -> None:
        """Take in a ListenerSet."""
        certified = [draft for draft in (before, after) if draft is not None and draft.material.certificates]
        self._touched.update(dict.fromkeys(draft.gateway for draft in certified))
        if after not in certified:
            self.crowded.pop(key, None)

    def settle(self, drafts: Mapping[Key, Draft], set_drafts: Mapping[Key, SetDraft]) -> Iterable[Key]:
        """Give out the room anew where something changed; return the places of ListenerSets that have it otherwise."""
        touched, self._touched = self._touched, {}
        changed: dict[Key, None] = {}
        for gateway in touched if self._limit is not None else ():
            in_order = {key: set_drafts[key] for key in self._listener_sets.of(gateway) if key in set_drafts}
            sets = {key: draft for key, draft in in_order.items() if draft.material.certificates}
            found = _without_room(drafts.get(gateway), sets, Room(self._limit)) if sets else {}
            for key in sets:
                if found.get(key, NOBODY) != self.crowded.get(key, NOBODY):
                    changed[place(key)] = None
                    self.crowded[key] = found.get(key, NOBODY)
        return changed


def place(key: Key) -> Key:
    """Return the key under which a ListenerSet's room is looked up."""
    return Key("room of a ListenerSet", key.namespace, key.name)


def _without_room(gateway: Draft | None, sets: Mapping[Key, SetDraft], room: Room) -> dict[Key, frozenset[str]]:
    if gateway is not None:
        room.fill(gateway.listeners, gateway.material)
    return {key: room.fill(draft.listeners, draft.material) for key, draft in sets.items()}
