"""Bring generated objects to what is wanted.

In:   ``want``: the manifests of a Gateway's objects; ``live``: what the API server holds.
Out:  server-side applies and deletions, only where something is to do.

Nothing is forced: fields that another manager holds are left to it, and that is reported. An
object of the same name that is not ours is never touched.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.manifests.compare import covers
from varnish_gateway.operator.live import LiveObject, decoder_of
from varnish_gateway.operator.sources import Sources
from varnish_gateway.operator.writer import Writer
from varnish_gateway.operator.yielding import without

Manifest = Mapping[str, Any]
NOT_LISTED = ("apiVersion", "kind")
"""What the API server leaves out of the objects in a list."""
Report = Callable[[Key, str, str], None]
"""Called with a Gateway, the reason of an Event, and a message."""


class NotOurs(errors.InvalidInput):
    """An object of that name belongs to somebody else."""


class Objects:
    def __init__(self, writer: Writer, sources: Sources, report: Report) -> None:
        self._writer = writer
        self._sources = sources
        self._report = report
        self._wanted: dict[Key, Manifest] = {}
        self._gateway: dict[Key, Key] = {}
        self._by_gateway: dict[Key, set[Key]] = {}
        self._yielded: dict[Key, tuple[str, ...]] = {}
        self._settled: dict[Key, tuple[Manifest, str]] = {}  # what was found right, and in which version
        self._locks: defaultdict[Key, asyncio.Lock] = defaultdict(asyncio.Lock)

    def want(self, gateway: Key, manifests: Mapping[Key, Manifest]) -> set[Key]:
        """Take in all manifests of a Gateway; return the keys of those that are others now, or gone."""
        before = self._by_gateway.get(gateway, set())
        changed = {key for key, manifest in manifests.items() if self._wanted.get(key) != manifest}
        gone = before - manifests.keys()
        for key in changed:
            self._wanted[key] = manifests[key]
            self._gateway[key] = gateway
            self._yielded.pop(key, None)
        for key in gone:
            del self._wanted[key], self._gateway[key]
            self._yielded.pop(key, None)
        if manifests:
            self._by_gateway[gateway] = set(manifests)
        else:
            self._by_gateway.pop(gateway, None)
        return changed | gone

    def gateway_of(self, key: Key) -> Key | None:
        return self._gateway.get(key)

    def keys(self) -> Iterable[Key]:
        return self._wanted.keys()

    def __contains__(self, key: Key) -> bool:
        return key in self._wanted

    async def bring(self, key: Key) -> None:
        """Have the object as it is wanted."""
        async with self._locks[key]:
            if key in self._wanted:
                await self._bring(key)

    async def _bring(self, key: Key) -> None:
        manifest = self._wanted[key]
        live = self._sources.live.get(key)
        if live is not None and self._settled.get(key) == (manifest, live.version):
            return
        if live is None:
            live = await self._look(key)
        if live is not None and not await self._may_be_applied(key, live, manifest):
            return
        wanted = without(manifest, self._yielded[key]) if key in self._yielded else manifest
        if live is None or not _is_as_wanted(live, wanted):
            live = await self._apply(key, wanted)
        self._settled[key] = (manifest, live.version)

    async def remove(self, key: Key) -> None:
        """Delete an object of ours that nobody wants any more."""
        self._settled.pop(key, None)
        self._locks.pop(key, None)
        live = self._sources.live.get(key)
        if live is not None and not live.is_ending:
            await self._writer.delete(key, uid=live.uid)

    async def _look(self, key: Key) -> LiveObject | None:
        """Make sure that an object that is to be created does not exist as somebody else's."""
        text = await self._writer.get(key)
        if text is None:
            return None
        live = decoder_of(key.kind)(text)
        if not live.gateway.name:
            raise NotOurs(
                f"{key} exists and is not managed by Varnish Gateway; remove it, or give the Gateway another name"
            )
        return live

    async def _may_be_applied(self, key: Key, live: LiveObject, manifest: Manifest) -> bool:
        """Whether the live object is this Gateway's; what a former one of its name left has to go first."""
        owner = next((ref["uid"] for ref in manifest["metadata"].get("ownerReferences", ())), "")
        if live.owner != owner and live.owner and not live.is_ending:
            await self._writer.delete(key, uid=live.uid)
            return False
        return not live.is_ending  # its end is seen, and then it is created anew

    async def _apply(self, key: Key, manifest: Manifest) -> LiveObject:
        try:
            answer = await self._writer.apply(manifest, manager=names.GATEWAY_MANAGER)
        except errors.FieldConflict as conflict:
            answer = await self._yield(key, manifest, conflict)
        live = decoder_of(key.kind)(answer)
        self._sources.answered(key, live)
        return live

    async def _yield(self, key: Key, manifest: Manifest, conflict: errors.FieldConflict) -> bytes:
        """Leave to others what they hold, and apply the rest."""
        fields = tuple(dict.fromkeys((*self._yielded.get(key, ()), *conflict.fields)))
        answer = await self._writer.apply(without(manifest, fields), manager=names.GATEWAY_MANAGER)
        self._yielded[key] = fields
        holders = ", ".join(conflict.managers) or "another manager"
        message = f"{key}: {', '.join(conflict.fields)} is left to {holders}, which holds it"
        self._report(self._gateway[key], "FieldConflict", message)
        return answer


def _is_as_wanted(live: LiveObject, manifest: Manifest) -> bool:
    document = live.document
    stored = document["metadata"].get("annotations", {}).get(names.APPLIED_HASH)
    content = {name: value for name, value in manifest.items() if name not in NOT_LISTED}
    return bool(stored == manifest["metadata"]["annotations"][names.APPLIED_HASH] and covers(document, content))
