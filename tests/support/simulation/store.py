"""What an API server stores, in memory.

In:   documents that users and controllers put, apply, patch and delete.
Out:  documents as they are stored, by Key; every change in its order, for watches; refusals as ``errors``.
Promises: what an operator depends on is as with a real API server, as tests/apiserver/test_simulation.py shows:
resource versions, a write that changes nothing, preconditions, server-side apply with its managers, generations,
finalizers, defaults of the Gateway API, and kinds that are not served. Stored documents are never changed in place.

Three things are left to the caller: the garbage collector (``collect_garbage``), the load balancer
(``give_addresses``) and the controller of Deployments (``replace_pods``) work when they are called.
"""

import asyncio
import itertools
from bisect import bisect_right
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from support.simulation.faults import Faults
from support.simulation.fields import (
    Document,
    Path,
    copied,
    drop,
    keyed,
    leaves,
    listed,
    managed_fields,
    merged,
    put,
    value_at,
)
from support.simulation.virtualtime import now
from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.kube.resources import RESOURCES
from varnish_gateway.standalone.schema import Catalogue

MOST_DATA_BYTES = 1 << 20
USER = "kubectl"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WAITING = {
    "GatewayClass": ("Accepted",),
    "Gateway": ("Accepted", "Programmed"),
    "ListenerSet": ("Accepted", "Programmed"),
}
"""The conditions that the CRDs give an object before a controller writes its status."""
COUNTED = ("Deployment", "PodDisruptionBudget")
"""Kinds with a generation, besides those of CRDs."""


class Change(NamedTuple):
    """One change of one object. ``before`` is None for a new one; ``after`` is the last state of one that is gone."""

    version: int
    type: str
    key: Key
    before: Document | None
    after: Document
    when: float
    who: str


class Manager(NamedTuple):
    """Who owns fields. A name that applies, and the same that updates, are two."""

    name: str
    operation: str = "Apply"
    subresource: str = ""


class Preconditions(NamedTuple):
    """What a write expects of its object; an empty field expects nothing."""

    uid: str = ""
    version: str = ""


class Store:
    """``absent`` are kinds that are not served. ``older`` has the only version that is served of a kind.

    ``breaks`` counts how often all watches were cut off.
    """

    def __init__(self) -> None:
        self.documents: dict[Key, Document] = {}
        self.changes: list[Change] = []
        self.version = 100
        self.oldest = 0
        self.absent: set[str] = set()
        self.older: dict[str, str] = {}
        self.breaks = 0
        self.faults = Faults()
        self._uids = itertools.count(1)
        self._changes: dict[str, list[Change]] = defaultdict(list)  # by kind
        self._unstated: set[Key] = set()  # whose status is a default that is not stored yet: the next write stores it
        self._owners: dict[Key, dict[Manager, frozenset[Path]]] = {}
        self._news: dict[str, asyncio.Event] = defaultdict(asyncio.Event)  # by kind

    # -- reading ------------------------------------------------------------------------------

    def serves(self, kind: str, version: str) -> bool:
        return kind not in self.absent and version == self.older.get(kind, RESOURCES[kind].version)

    def check_served(self, kind: str, version: str = "") -> None:
        """Raise NotFound where a kind is not served, or not in this version."""
        if kind in self.absent or (version and not self.serves(kind, version)):
            raise _refused(errors.NotFound, 404, f"{kind} is not served")

    def get(self, key: Key) -> Document:
        """Return an object; raise NotFound."""
        self.check_served(key.kind)
        if key not in self.documents:
            raise _refused(errors.NotFound, 404, f"{key} not found")
        return self.documents[key]

    def of_kind(self, kind: str) -> list[Document]:
        """Return all objects of a kind; raise NotFound where it is not served."""
        self.check_served(kind)
        return [document for key, document in self.documents.items() if key.kind == kind]

    def since(self, kind: str, version: int) -> list[Change]:
        """Return what happened to a kind after a version; raise Expired where that is forgotten."""
        if version < self.oldest:
            raise _refused(errors.Expired, 410, "too old resource version")
        changes = self._changes[kind]
        return changes[bisect_right(changes, version, key=lambda change: change.version) :]

    async def news(self, kind: str) -> None:
        """Wait for the next change of a kind, or for the end of its watches."""
        await self._news[kind].wait()

    # -- what users do ------------------------------------------------------------------------

    def put(self, *documents: Document) -> None:
        """Apply as kubectl does; a status is stored as other writers do."""
        for document in documents:
            self.apply(document, USER, force=True)
            if "status" in document:
                self.apply(document, "kubelet", subresource="status", force=True)

    def delete(self, key: Key, who: str = USER) -> bool:
        """Delete an object, or begin to where finalizers hold it; return whether there was one."""
        stored = self.documents.get(key)
        if stored is None:
            return False
        if not stored["metadata"].get("finalizers"):
            self._end(key, stored, who)
        elif "deletionTimestamp" not in stored["metadata"]:
            ending = copied(stored)
            ending["metadata"] |= {"deletionTimestamp": _timestamp(), "deletionGracePeriodSeconds": 0}
            if "generation" in ending["metadata"]:
                ending["metadata"]["generation"] += 1
            self._keep(key, ending, who)
        return True

    # -- what happens to a cluster ------------------------------------------------------------

    def break_watches(self) -> None:
        self.breaks += 1
        for kind in list(self._news):
            self._announce(kind)

    def compact(self) -> None:
        """Forget all versions but the newest; watchers have to list again."""
        self.oldest = self.version
        self.break_watches()

    def take_away(self, kind: str) -> None:
        """Serve a kind no more; its objects stay, and users may have it in another version."""
        self.absent.add(kind)
        self._announce(kind)

    def bring_back(self, *kinds: str) -> None:
        self.absent.difference_update(kinds)

    def collect_garbage(self) -> None:
        """Delete objects whose owners are all gone."""
        uids = {document["metadata"]["uid"] for document in self.documents.values()}
        for key, document in list(self.documents.items()):
            owners = document["metadata"].get("ownerReferences", ())
            if owners and not any(owner["uid"] in uids for owner in owners):
                self.delete(key, "garbage collector")

    def give_addresses(self) -> None:
        """Give each Service of a load balancer its address."""
        for key, document in list(self.documents.items()):
            if key.kind == "Service" and document["spec"].get("type") == "LoadBalancer":
                status = {"loadBalancer": {"ingress": [{"ip": document["spec"]["clusterIPs"][0]}]}}
                self._keep(key, {**document, "status": status}, "load balancer")

    def replace_pods(self, *keys: Key) -> None:
        """End the rollouts of Deployments, of all without keys."""
        for key, document in list(self.documents.items()):
            if key.kind == "Deployment" and (key in keys or not keys):
                count = document["spec"]["replicas"]
                status = {"observedGeneration": document["metadata"]["generation"]}
                status |= dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), count)
                self._keep(key, {**document, "status": status}, "deployment controller")

    # -- what controllers ask for -------------------------------------------------------------

    def apply(self, document: Document, manager: str, *, subresource: str = "", force: bool = False) -> Document:
        """Server-side apply; return the object as it is stored then."""
        key = key_of(document)
        stored = self._meant(key, document, subresource)
        new = keyed(stored or _identity(document))
        me, owners = Manager(manager, "Apply", subresource), dict(self._owners.get(key, {}))
        stated = {path: value for path, value in leaves(keyed(document)) if (path[0] == "status") == bool(subresource)}
        _settle_conflicts(stated, new, me, owners, force=force)
        kept = stated.keys() | {path for other, paths in owners.items() if other != me for path in paths}
        drop(new, owners.get(me, frozenset()) - kept, kept)
        for path, value in stated.items():
            put(new, path, value)
        owners[me] = frozenset(stated)
        _check_size(key, new)
        return self._keep(key, listed(new), manager, {one: paths for one, paths in owners.items() if paths})

    def patch(self, key: Key, patch: Document, manager: str, *, subresource: str = "") -> Document:
        """JSON merge patch, as ``kubectl edit`` sends it too: what is changed is the manager's from then on."""
        stored = self.get(key)
        _check_version(stored, patch.get("metadata", {}).get("resourceVersion", ""))
        new = copied(merged(stored, {name: patch[name] for name in patch if name != "metadata"}))
        if not subresource:
            new["metadata"] = merged(stored["metadata"], patch.get("metadata", {}))
        before, after = dict(leaves(keyed(stored))), dict(leaves(keyed(new)))
        changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
        me = Manager(manager, "Update", subresource)
        owners = {one: paths - changed for one, paths in self._owners[key].items()}
        owners[me] = owners.get(me, frozenset()) | (changed & after.keys())
        return self._keep(key, new, manager, {one: paths for one, paths in owners.items() if paths})

    def remove(self, key: Key, conditions: Preconditions, who: str) -> None:
        """Delete an object if it is the one that is meant."""
        stored = self.get(key)
        if conditions.uid not in ("", stored["metadata"]["uid"]):
            raise _refused(errors.Conflict, 409, f"{key} has another uid")
        _check_version(stored, conditions.version)
        self.delete(key, who)

    # -- inside -------------------------------------------------------------------------------

    def _meant(self, key: Key, document: Document, subresource: str) -> Document | None:
        """Return the object that a document is about, None for a new one; raise where it is another."""
        self._check_role(key, document)
        stored, metadata = self.documents.get(key), document["metadata"]
        if stored is None:
            if subresource:
                raise _refused(errors.NotFound, 404, f"{key} not found")
            if metadata.get("uid"):
                raise _refused(errors.Conflict, 409, f"{key}: uid mismatch, no existing object was found")
            return None
        if metadata.get("uid", stored["metadata"]["uid"]) != stored["metadata"]["uid"]:
            raise _refused(errors.Invalid, 422, f"{key}: metadata.uid is immutable")
        _check_version(stored, metadata.get("resourceVersion", ""))
        return stored

    def _check_role(self, key: Key, document: Document) -> None:
        """Raise where a binding is of a Role that is not there: who may not do all can't bind that."""
        ref = document.get("roleRef", {})
        if ref.get("kind") == "Role" and Key("Role", key.namespace, ref["name"]) not in self.documents:
            raise _refused(errors.NotFound, 404, f"{key}: there is no Role {ref['name']}")

    def _keep(
        self, key: Key, new: Document, who: str, owners: dict[Manager, frozenset[Path]] | None = None
    ) -> Document:
        """Store an object unless nothing is different; return it as it is stored."""
        before = self.documents.get(key)
        after = _completed(key.kind, new)
        metadata = after["metadata"]
        if owners is not None:
            metadata["managedFields"] = _managed_fields(owners)
        _check_owners(key, metadata)
        if before is None:
            self._begin(key, after)
        elif "generation" in metadata and _content(after) != _content(before):
            metadata["generation"] = before["metadata"]["generation"] + 1
        if before == after and key not in self._unstated:
            return before
        if before is not None:
            self._unstated.discard(key)
        if owners is not None:
            self._owners[key] = owners
        if before is not None and "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            self._end(key, after, who)
            return after
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        self.documents[key] = after
        self._tell(Change(self.version, "MODIFIED" if before else "ADDED", key, before, after, now(), who))
        return after

    def _begin(self, key: Key, new: Document) -> None:
        """Give a new object what only the API server gives."""
        number = next(self._uids)
        new["metadata"] |= {"uid": f"uid-{number}", "creationTimestamp": _timestamp()}
        if _is_of_crd(key.kind) or key.kind in COUNTED:
            new["metadata"]["generation"] = 1
        if key.kind in WAITING:
            self._unstated.add(key)
        if key.kind == "Service":
            new["spec"]["clusterIPs"] = [f"10.0.{number // 250}.{number % 250}"]

    def _end(self, key: Key, last: Document, who: str) -> None:
        before = self.documents.pop(key)
        self._owners.pop(key, None)
        self._unstated.discard(key)
        self.version += 1
        gone = {**last, "metadata": {**last["metadata"], "resourceVersion": str(self.version)}}
        self._tell(Change(self.version, "DELETED", key, before, gone, now(), who))

    def _tell(self, change: Change) -> None:
        self.changes.append(change)
        self._changes[change.key.kind].append(change)
        self._announce(change.key.kind)

    def _announce(self, kind: str) -> None:
        self._news.pop(kind, asyncio.Event()).set()


def key_of(document: Document) -> Key:
    metadata = document["metadata"]
    return Key(document["kind"], metadata.get("namespace", ""), metadata["name"])


def _refused(kind: type[errors.ApiError], status: int, message: str) -> errors.ApiError:
    return kind(message, status=status)


def _timestamp() -> str:
    return (BEGIN + timedelta(seconds=int(now()))).strftime("%Y-%m-%dT%H:%M:%SZ")


def _identity(document: Document) -> Document:
    metadata = {name: document["metadata"][name] for name in ("name", "namespace") if name in document["metadata"]}
    return {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": metadata}


def _content(document: Document) -> Document:
    """Return what a generation counts the changes of."""
    return {name: value for name, value in document.items() if name not in ("metadata", "status")}


def _check_size(key: Key, document: Document) -> None:
    """Raise as the API server does if a ConfigMap or a Secret has too much data."""
    size = sum(map(len, document.get("data", {}).values())) if key.kind in ("ConfigMap", "Secret") else 0
    if size > MOST_DATA_BYTES:
        raise errors.Invalid(f"data: Too long: may not be more than {MOST_DATA_BYTES} bytes", status=422)


def _check_version(stored: Document, version: str) -> None:
    if version not in ("", stored["metadata"]["resourceVersion"]):
        raise _refused(errors.Conflict, 409, f"{key_of(stored)}: the object has been modified")


def _check_owners(key: Key, metadata: Document) -> None:
    if sum(bool(owner.get("controller")) for owner in metadata.get("ownerReferences", ())) > 1:
        raise _refused(errors.Invalid, 422, f"{key}: only one ownerReference can be the controller")


def _settle_conflicts(
    stated: dict[Path, Any], stored: Document, me: Manager, owners: dict[Manager, frozenset[Path]], *, force: bool
) -> None:
    """Take over from others what is stated otherwise; raise FieldConflict unless that is forced."""
    different = {path for path, value in stated.items() if value not in ({}, value_at(stored, path))}
    held = {other: paths & different for other, paths in owners.items() if other != me and paths & different}
    if held and not force:
        fields = sorted("." + ".".join(path) for path in set().union(*held.values()))
        managers = tuple(sorted({manager.name for manager in held}))
        raise errors.FieldConflict(f"held by {managers}: {fields}", managers=managers, fields=tuple(fields))
    for other, paths in held.items():
        owners[other] -= paths


def _managed_fields(owners: dict[Manager, frozenset[Path]]) -> list[Document]:
    """Return who manages which fields."""
    return [
        {"manager": name, "operation": operation, "fieldsV1": managed_fields(paths)}
        | ({"subresource": subresource} if subresource else {})
        for (name, operation, subresource), paths in owners.items()
    ]


# -- what is added to documents -------------------------------------------------------------------------------


@cache
def _catalogue() -> Catalogue:
    return Catalogue()


def _is_of_crd(kind: str) -> bool:
    return RESOURCES[kind].group.startswith("gateway.")


def _completed(kind: str, document: Document) -> Document:
    """Return a document with its defaults, of those that matter; raise where its CRD does not take it."""
    status = document.get("status")
    plain = copied({name: value for name, value in document.items() if name != "status"})
    if _is_of_crd(kind):
        schema = _catalogue().find(document["apiVersion"], kind)
        if schema is not None and (problems := schema.check(plain)):
            raise _refused(errors.Invalid, 422, f"{kind}: {problems}")
    if kind == "Deployment":
        plain["spec"].setdefault("replicas", 1)
    if not status and kind in WAITING:
        status = {"conditions": [_waiting(type_) for type_ in WAITING[kind]]}
    return plain | ({"status": status} if status is not None else {})


def _waiting(type_: str) -> Document:
    return {
        "type": type_,
        "status": "Unknown",
        "reason": "Pending",
        "message": "Waiting for controller",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    }
