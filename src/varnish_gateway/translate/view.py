"""What a pure function may look at, and a record of what it did look at.

In:   the store of objects, and lookups.
Out:  the objects, and in ``View.seen`` the key of every lookup, also of those that found
      nothing: an object that appears later is a change like any other.

Two kinds of keys beside those of objects: the name "*" stands for all objects of a kind in
a namespace, and the kinds below stand for what an earlier layer made of an object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from varnish_gateway import api
from varnish_gateway.api import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from varnish_gateway.translate.classes import Class
    from varnish_gateway.translate.gateways import Draft, Settled

CLASS = "translated GatewayClass"
DRAFT = "translated Gateway"
SETTLED = "settled Gateway"
PORT = "port"
EVERY = "*"

T = TypeVar("T", bound=api.Object)


class Store:
    """All objects, and what the layers made of them."""

    def __init__(self) -> None:
        self.objects: dict[Key, api.Object] = {}
        self.grants: dict[str, dict[Key, api.ReferenceGrant]] = {}
        self.class_objects = 0
        self.classes: Mapping[Key, Class] = {}
        self.drafts: Mapping[Key, Draft] = {}
        self.settled: Mapping[Key, Settled] = {}
        self.port_owners: Mapping[int, Key] = {}

    def put(self, key: Key, obj: api.Object | None) -> Iterable[Key]:
        """Take in one change; return the keys under which it can have been looked up."""
        before = self.objects.get(key)
        if before == obj:  # only its status changed, which we don't read
            return
        self.objects.pop(key, None)
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
        return found if found and found.is_served else None

    def draft(self, key: Key) -> Draft | None:
        """Return the Gateway as it stands by itself, if it is ours."""
        self.seen.add(key._replace(kind=DRAFT))
        return self._store.drafts.get(key)

    def port_owner(self, port: int) -> Key | None:
        """Return the Gateway that has a port of this machine."""
        self.seen.add(Key(PORT, "", str(port)))
        return self._store.port_owners.get(port)

    def gateway(self, namespace: str, name: str) -> Settled | None:
        """Return the Gateway as routes see it, if it is ours."""
        self.seen.add(Key(SETTLED, namespace, name))
        return self._store.settled.get(Key("Gateway", namespace, name))
