"""Whether the certificates of ListenerSets have room in the one object that carries all of a Gateway's.

In:   Gateways and ListenerSets by themselves, with the files that they ask for.
Out:  the listeners for which there is no room: the Gateway's own have it first, then those of
      older ListenerSets, then those that come first by namespace/name.
A change costs the ListenerSets of its Gateway that have certificates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway.api import Key
from varnish_gateway.translate.incremental.claims import rank
from varnish_gateway.translate.tls.termination import Room

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from varnish_gateway.translate.gateway.gateways import Draft
    from varnish_gateway.translate.gateway.listener_sets import SetDraft

NOBODY: frozenset[str] = frozenset()


class Rooms:
    """``crowded`` are the ids of listeners without room, by ListenerSet. Without a limit nobody is."""

    def __init__(self, limit: int | None) -> None:
        self.crowded: dict[Key, frozenset[str]] = {}
        self._limit = limit
        self._sets: dict[Key, dict[Key, SetDraft]] = {}  # those with certificates, by Gateway
        self._gateways: dict[Key, Key] = {}
        self._touched: dict[Key, None] = {}

    def touch(self, gateway: Key) -> None:
        """Note that a Gateway by itself is another one."""
        self._touched[gateway] = None

    def put(self, key: Key, draft: SetDraft | None) -> None:
        """Take in a ListenerSet."""
        if (before := self._gateways.pop(key, None)) is not None:
            del self._sets[before][key]
            if not self._sets[before]:
                del self._sets[before]
            self._touched[before] = None
        if draft is None or not draft.material.certificates:
            self.crowded.pop(key, None)
        else:
            self._gateways[key] = draft.gateway
            self._sets.setdefault(draft.gateway, {})[key] = draft
            self._touched[draft.gateway] = None

    def settle(self, drafts: Mapping[Key, Draft]) -> Iterable[Key]:
        """Give out the room anew where something changed; return the places of ListenerSets that have it otherwise."""
        touched, self._touched = self._touched, {}
        changed: dict[Key, None] = {}
        for gateway in touched if self._limit is not None else ():
            sets = self._sets.get(gateway, {})
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
    ordered = sorted(sets.items(), key=lambda item: rank(item[1].created, item[0]))
    return {key: room.fill(draft.listeners, draft.material) for key, draft in ordered}
