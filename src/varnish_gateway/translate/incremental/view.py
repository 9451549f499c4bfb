"""What a pure function may look at, and a record of what it did look at.

In:   the store of objects, and lookups.
Out:  the objects, and in ``View.seen`` the key of every lookup, also of those that found
      nothing: an object that appears later is a change like any other.

Two kinds of keys beside those of objects: the name "*" stands for all objects of a kind in
a namespace, and the kinds below stand for what an earlier layer made of an object. Places
that are claimed have keys of their own: see claims.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.translate.tls import quota

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from varnish_gateway.translate.gateway.gateway_class import Class
    from varnish_gateway.translate.gateway.gateways import Draft, Settled
    from varnish_gateway.translate.gateway.listener_sets import SetDraft, SettledSet
    from varnish_gateway.translate.incremental.claims import Claim

    Parent: TypeAlias = Settled | SettledSet

CLASS = "translated GatewayClass"
DRAFT = "translated Gateway"
SET_DRAFT = "translated ListenerSet"
SETTLED = {"Gateway": "settled Gateway", "ListenerSet": "settled ListenerSet"}
EVERY = "*"

T = TypeVar("T", bound=api.Object)
R = TypeVar("R")


class Store:
    """All objects, and what the layers made of them."""

    def __init__(self) -> None:
        self.objects: dict[Key, api.Object] = {}
        self.grants: dict[str, dict[Key, api.ReferenceGrant]] = {}
        self.class_objects = 0
        self.judgements: dict[Key, dict[Callable[..., Any], Any]] = {}
        self.classes: Mapping[Key, Class] = {}
        self.drafts: Mapping[Key, Draft] = {}
        self.set_drafts: Mapping[Key, SetDraft] = {}
        self.settled: Mapping[Key, Settled] = {}
        self.sets: Mapping[Key, SettledSet] = {}
        self.winners: Mapping[Key, Claim] = {}
        self.crowded: Mapping[Key, frozenset[str]] = {}
        self._referenced: dict[str, dict[Key, int]] = {}

    def reference(self, key: Key) -> None:
        """Count a layer that depends on a key now."""
        counts = self._referenced.setdefault(key.kind, {})
        counts[key] = counts.get(key, 0) + 1

    def dereference(self, key: Key) -> None:
        """Count a layer that does not depend on a key any more."""
        counts = self._referenced[key.kind]
        counts[key] -= 1
        if not counts[key]:
            del counts[key]

    def referenced(self, kind: str) -> Collection[Key]:
        """Return the keys of a kind that any layer depends on, whether the objects exist or not."""
        return self._referenced.get(kind, {}).keys()

    def put(self, key: Key, obj: api.Object | None) -> Iterable[Key]:
        """Take in one change; return the keys under which it can have been looked up."""
        before = self.objects.get(key)
        if before == obj:  # only its status changed, which we don't read
            return
        self.objects.pop(key, None)
        self.judgements.pop(key, None)
        if obj is not None:
            self.objects[key] = obj
        yield key
        if key.kind == "ReferenceGrant":
            granted = self.grants.setdefault(key.namespace, {})
            granted.pop(key, None)
            if obj is not None:
                granted[key] = cast("api.ReferenceGrant", obj)
            yield Key("ReferenceGrant", key.namespace, EVERY)
        elif key.kind == "GatewayClass" and (before is None) != (obj is None):
            self.class_objects += 1 if before is None else -1
            yield Key("GatewayClass", "", EVERY)


class View:
    """Lookups of one translation, recorded."""

    __slots__ = ("_store", "seen")

    def __init__(self, store: Store) -> None:
        self._store = store
        self.seen: set[Key] = set()

    def find(self, wanted: type[T], namespace: str, name: str) -> T | None:
        """Return the object of that kind and name."""
        key = Key(wanted.kind, namespace, name)
        self.seen.add(key)
        return cast("T | None", self._store.objects.get(key))

    def judged(self, wanted: type[T], namespace: str, name: str, judge: Callable[[T], R]) -> R | None:
        """Return what a pure function makes of an object; the same object is judged once."""
        found = self.find(wanted, namespace, name)
        if found is None:
            return None
        known = self._store.judgements.setdefault(Key(wanted.kind, namespace, name), {})
        if judge not in known:
            known[judge] = judge(found)
        return cast("R", known[judge])

    def grants(self, namespace: str) -> Iterable[api.ReferenceGrant]:
        """Return every ReferenceGrant of a namespace."""
        self.seen.add(Key("ReferenceGrant", namespace, EVERY))
        return self._store.grants.get(namespace, {}).values()

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return a namespace's labels; without a Namespace object it has the one that all have."""
        found = self.find(api.Namespace, "", namespace)
        return {**(found.metadata.labels if found else {}), "kubernetes.io/metadata.name": namespace}

    def classless(self) -> bool:
        """Return whether there is no GatewayClass at all."""
        self.seen.add(Key("GatewayClass", "", EVERY))
        return self._store.class_objects == 0

    def gateway_class(self, name: str) -> Class | None:
        """Return the GatewayClass as translated, if it is ours to serve."""
        self.seen.add(Key(CLASS, "", name))
        found = self._store.classes.get(Key("GatewayClass", "", name))
        return found if found is not None and found.is_served else None

    def draft(self, key: Key) -> Draft | None:
        """Return the Gateway as it stands by itself, if it is ours."""
        self.seen.add(key._replace(kind=DRAFT))
        return self._store.drafts.get(key)

    def set_draft(self, key: Key) -> SetDraft | None:
        """Return the ListenerSet as it stands by itself, if its Gateway is ours."""
        self.seen.add(key._replace(kind=SET_DRAFT))
        return self._store.set_drafts.get(key)

    def winner(self, place: Key) -> Claim | None:
        """Return the claim that goes before all others on a place."""
        self.seen.add(place)
        return self._store.winners.get(place)

    def crowded(self, key: Key) -> frozenset[str]:
        """Return the listeners of a ListenerSet whose certificates have no room."""
        self.seen.add(quota.place(key))
        return self._store.crowded.get(key, quota.NOBODY)

    def parent(self, key: Key) -> Parent | None:
        """Return a Gateway or ListenerSet as routes see it, if it is ours."""
        self.seen.add(key._replace(kind=SETTLED[key.kind]))
        if key.kind == api.Gateway.kind:
            return self._store.settled.get(key)
        return self._store.sets.get(key)
