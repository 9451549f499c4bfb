"""Bring generated objects to what is wanted.

In:   ``want``: the manifests of a Gateway's objects; ``live``: what the API server holds.
Out:  server-side applies and deletions, only where something is to do.

Nothing is forced: fields that another manager holds are left to it until it lets go of them, and
that is reported. An object of the same name that is not ours is never touched.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.manifests.compare import covers
from varnish_gateway.operator.execute.field_conflicts import NOTHING, Yielded, held_by, without
from varnish_gateway.operator.execute.replicas import with_replicas_held
from varnish_gateway.operator.execute.writer import Writer
from varnish_gateway.operator.observe.owned import LiveObject, decoder_of, hidden
from varnish_gateway.operator.observe.sources import Sources

Manifest = Mapping[str, Any]
NOT_LISTED = ("apiVersion", "kind")
"""What the API server leaves out of the objects in a list."""
Report = Callable[[Key, str, str], None]
"""Called with a Gateway, the reason of an Event, and a message."""


class Objects:
    """``add_surplus`` is called with an object that was perhaps just made, and is not wanted any more."""

    def __init__(self, writer: Writer, sources: Sources, report: Report, add_surplus: Callable[[Key], None]) -> None:
        self._writer = writer
        self._sources = sources
        self._report = report
        self._add_surplus = add_surplus
        self._wanted: dict[Key, Manifest] = {}
        self._gateway: dict[Key, Key] = {}
        self._by_gateway: dict[Key, set[Key]] = {}
        self._yielded: dict[Key, Yielded] = {}
        self._settled: dict[Key, tuple[Manifest, str]] = {}  # what was found right, and in which version
        # Each lock is there for as long as somebody holds it or waits for it.
        self._locks: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()

    def want(self, gateway: Key, changed: Mapping[Key, Manifest | None]) -> None:
        """Take in changed manifests of a Gateway; None is an object that is not wanted any more."""
        keys = self._by_gateway.setdefault(gateway, set())
        for key, manifest in changed.items():
            self._forget(key)
            if manifest is None:
                keys.discard(key)
            else:
                keys.add(key)
                self._wanted[key] = manifest
                self._gateway[key] = gateway

    def drop(self, gateway: Key) -> None:
        """Want nothing of a Gateway any more."""
        for key in self._by_gateway.pop(gateway, ()):
            self._forget(key)

    def _forget(self, key: Key) -> None:
        for about in (self._wanted, self._gateway, self._yielded, self._settled):
            about.pop(key, None)

    def gateway_of(self, key: Key) -> Key | None:
        return self._gateway.get(key)

    def keys(self) -> Iterable[Key]:
        return self._wanted.keys()

    def __contains__(self, key: Key) -> bool:
        return key in self._wanted

    async def bring(self, key: Key) -> None:
        """Have the object as it is wanted."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            if key not in self._wanted:
                return
            try:
                await self._bring(key)
            finally:
                if key not in self._wanted:
                    self._add_surplus(key)

    async def _bring(self, key: Key) -> None:
        manifest = self._wanted[key]
        live = self._sources.live.get(key)
        if live is not None and self._settled.get(key) == (manifest, live.version):
            return
        if live is None:
            live = await self._look(key)  # it may exist without our labels
        if live is not None and not await self._may_be_applied(key, live, manifest):
            if key not in self._sources.live:
                raise errors.Conflict(f"{key} is on its way out, and nobody will tell us of its end")
            return
        wanted = self._without_yielded(key, manifest, live)
        if live is not None:
            wanted = with_replicas_held(wanted, live)
        if live is None or not _is_as_wanted(live, wanted):
            await self._bring_role(manifest)
            live = await self._apply(key, wanted)
        if self._wanted.get(key) is manifest:
            self._settled[key] = (manifest, live.version)

    def _without_yielded(self, key: Key, manifest: Manifest, live: LiveObject | None) -> Manifest:
        """Return what others leave to us. Once they hold something else, all of it is worth another try."""
        yielded = self._yielded.get(key)
        if yielded is None:
            return manifest
        if live is None or held_by(yielded.managers, live.document) != yielded.held:
            del self._yielded[key]
            return manifest
        return without(manifest, yielded.fields)

    async def _bring_role(self, manifest: Manifest) -> None:
        """Have the Role of a RoleBinding first: the API server takes no binding of one that does not exist."""
        ref = manifest.get("roleRef", {})
        if ref.get("kind") == "Role":
            await self.bring(Key("Role", manifest["metadata"]["namespace"], ref["name"]))

    async def remove(self, key: Key) -> None:
        """Delete an object of ours that nobody wants any more."""
        live = self._sources.live.get(key)
        if live is not None and not live.is_ending:
            await self._writer.delete(key, live.uid, live.version)

    async def _look(self, key: Key) -> LiveObject | None:
        """Read an object that is not among those that we watch; should it belong there, it is from now on."""
        with self._sources.awaiting(key):
            text = await self._writer.get(key)
            if text is None:
                return None
            live = decoder_of(key.kind)(text)
            self._sources.answered(key, live)
        return live

    async def _may_be_applied(self, key: Key, live: LiveObject, manifest: Manifest) -> bool:
        """Whether the live object is this Gateway's; what a former one of its name left has to go first."""
        check_ours(key, live)
        owner = next((ref["uid"] for ref in manifest["metadata"].get("ownerReferences", ())), "")
        is_of_another = live.owner != owner and bool(live.owner)
        if (is_of_another or _is_bound_otherwise(live, manifest)) and not live.is_ending:
            await self._writer.delete(key, live.uid, live.version)
            return False
        return not live.is_ending  # its end is seen, and then it is created anew

    async def _apply(self, key: Key, manifest: Manifest) -> LiveObject:
        with self._sources.awaiting(key):
            try:
                answer = await self._writer.apply(manifest, manager=names.GATEWAY_MANAGER)
            except errors.FieldConflict as conflict:
                answer = await self._yield(key, manifest, conflict)
            live = decoder_of(key.kind)(answer)
            self._sources.answered(key, live)
        return live

    async def _yield(self, key: Key, manifest: Manifest, conflict: errors.FieldConflict) -> bytes:
        """Leave to others what they hold, and apply the rest. Half a Secret is of no use."""
        if any(field.startswith(".data") for field in conflict.fields):
            held = f"{key}: {', '.join(conflict.fields)} is held by {', '.join(conflict.managers)}"
            message = f"{held}; delete the {key.kind}, and it is made anew at once"
            raise errors.FieldConflict(message, managers=conflict.managers, fields=conflict.fields) from conflict
        before = self._yielded.get(key, NOTHING)
        fields = tuple(dict.fromkeys((*before.fields, *conflict.fields)))
        managers = tuple(dict.fromkeys((*before.managers, *conflict.managers)))
        answer = await self._writer.apply(without(manifest, fields), manager=names.GATEWAY_MANAGER)
        if (gateway := self._gateway.get(key)) is None:  # it is not wanted any more
            return answer
        yielded = Yielded(fields, managers, held_by(managers, msgspec.json.decode(answer)))
        if not yielded.held:
            raise errors.Conflict(f"{key} is another one by now, and they hold nothing of it")
        self._yielded[key] = yielded
        holders = ", ".join(conflict.managers) or "another manager"
        message = f"{key}: {', '.join(conflict.fields)} is left to {holders}, which holds it"
        self._report(gateway, "FieldConflict", message)
        return answer


def check_ours(key: Key, live: LiveObject) -> None:
    """Raise unless we made the object: one of somebody else is never touched, whatever its labels say."""
    if not live.is_ours:
        raise errors.NotOurs(
            f"{key} exists and is not managed by Varnish Gateway; remove it, or give the Gateway another name"
        )


def _is_bound_otherwise(live: LiveObject, manifest: Manifest) -> bool:
    """Whether a RoleBinding is of another Role, which can't be changed."""
    return bool(manifest["kind"] == "RoleBinding" and live.document["roleRef"] != manifest["roleRef"])


def _is_as_wanted(live: LiveObject, manifest: Manifest) -> bool:
    document = live.document
    stored = document["metadata"].get("annotations", {}).get(names.APPLIED_HASH)
    wanted = hidden(manifest) if manifest["kind"] == "Secret" else manifest
    content = {name: value for name, value in wanted.items() if name not in NOT_LISTED}
    return bool(stored == manifest["metadata"]["annotations"][names.APPLIED_HASH] and covers(document, content))
