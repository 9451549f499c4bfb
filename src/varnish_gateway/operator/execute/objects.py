"""Apply and delete generated objects.

In:   the desired manifests, and the objects as observed.
Out:  server-side applies and deletions, only where desired and observed differ.

Nothing is forced: a field that another manager holds is left to it until it lets go, and an
Event says so. An object that we didn't apply is never changed, whatever its name and labels.
"""

import asyncio
import math
import time
from weakref import WeakValueDictionary

import msgspec

from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.manifests.compare import covers
from varnish_gateway.ir.capabilities import LATER_PORTS, NONE
from varnish_gateway.operator.execute.events import Warnings
from varnish_gateway.operator.execute.field_conflicts import LeftFields, conflict_in, held_by, without
from varnish_gateway.operator.execute.replicas import with_replicas_held
from varnish_gateway.operator.execute.rollouts import Rollouts
from varnish_gateway.operator.execute.writer import Writer
from varnish_gateway.operator.observe.owned import OwnedObject, owned_decoder, with_hashed_data
from varnish_gateway.operator.observe.watches import Watches
from varnish_gateway.operator.plan import port_changes
from varnish_gateway.operator.plan.objects import DesiredObjects, Manifest
from varnish_gateway.operator.plan.results import UPGRADE_PENDING, JobResult, Postponed

NOT_LISTED = ("apiVersion", "kind")
"""Fields that the API server leaves out of the objects in a list."""
POSTPONED_SECONDS = 5.0
"""When to ask again whether a postponed Deployment may be applied."""


class ObjectWriter:
    def __init__(
        self,
        writer: Writer,
        watches: Watches,
        desired: DesiredObjects,
        warnings: Warnings,
        *,
        rollouts: Rollouts | None = None,
    ) -> None:
        self._writer = writer
        self._rollouts = rollouts or Rollouts(watches.observed.owned)
        self._watches = watches
        self._observed = watches.observed
        self._desired = desired
        self._warnings = warnings
        self._left: dict[Key, LeftFields] = {}
        self._verified: dict[Key, tuple[Manifest, str]] = {}  # what was found right, and in which version
        self.locks: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()

    async def ensure(self, key: Key, result: JobResult) -> None:
        """Apply the desired manifest where the object differs from it. Two jobs may need the same object."""
        lock = self.locks.setdefault(key, asyncio.Lock())
        async with lock:
            manifest = self._desired.get(key)
            if manifest is None:
                return
            result.touched.add(key)
            await self._ensure(key, manifest, result)

    async def delete(self, key: Key) -> None:
        """Delete an object that is no longer desired."""
        owned = self._observed.owned.get(key)
        if owned is not None and not owned.is_deleting:
            await self._writer.delete(key, owned.uid, owned.version)

    def begin(self) -> None:
        """Prepare for leading: forget objects that are no longer desired, and count rollouts that are under way."""
        deployments = {key: manifest for key, manifest in self._desired.items() if key.kind == "Deployment"}
        self._rollouts.resume(deployments, time.monotonic())
        for key in [key for key in self.remembered if key not in self._desired]:
            self.forget(key)

    def forget(self, key: Key) -> None:
        """Forget an object: nothing of its manifest, which may hold certificates, stays in memory."""
        self._left.pop(key, None)
        self._verified.pop(key, None)

    @property
    def remembered(self) -> set[Key]:
        """The objects whose manifests are kept for the next comparison."""
        return {*self._left, *self._verified}

    async def _ensure(self, key: Key, manifest: Manifest, result: JobResult) -> None:
        owned = self._observed.owned.get(key)
        if owned is not None and self._verified.get(key) == (manifest, owned.version):
            return
        if owned is None:
            owned = await self._read(key)  # it may exist without our labels
        if owned is not None and not await self._may_be_applied(key, owned, manifest):
            if key not in self._observed.owned:
                raise errors.Conflict(f"{key} is being deleted, and no watch of ours reports the end of that")
            return
        applicable = self._without_left(key, manifest, owned)
        if owned is not None:
            applicable = with_replicas_held(applicable, owned)
        if owned is None or not _matches(owned, applicable):
            if key.kind == "Deployment" and owned is not None:
                record = self._admit(key, owned, manifest, result)
                if record is None:
                    return
                applicable = port_changes.with_record(applicable, record)
            await self._ensure_role(manifest, result)
            owned = await self._apply(key, manifest, applicable)
        if self._desired.get(key) is manifest:
            self._verified[key] = (manifest, owned.version)

    def _admit(
        self, key: Key, owned: OwnedObject, manifest: Manifest, result: JobResult
    ) -> port_changes.PortRecord | None:
        """Return the record of port changes for a Deployment to apply now, None where it has to wait."""
        gateway = self._desired.gateway_of(key)
        understood = self._observed.capabilities_in_use(gateway) if gateway is not None else NONE
        pods_open_ports = LATER_PORTS.name in understood
        change = port_changes.plan(owned.document, manifest, time.time(), pods_open_ports=pods_open_ports)
        if change.wait:
            result.postponed = Postponed(change.message, has_ports=True) if change.message else None
            result.retry_after = 0.0 if math.isinf(change.wait) else change.wait
            return None
        if not self._rollouts.may_apply(key, owned, manifest, time.monotonic()):
            result.postponed, result.retry_after = UPGRADE_PENDING, POSTPONED_SECONDS
            return None
        return change.record

    def _without_left(self, key: Key, manifest: Manifest, owned: OwnedObject | None) -> Manifest:
        """Return the manifest without fields left to other managers. Once those hold other fields, try all again."""
        left = self._left.get(key)
        if left is None:
            return manifest
        if left.manifest is not manifest or owned is None or held_by(left.managers, owned.document) != left.held:
            del self._left[key]
            return manifest
        return without(manifest, left.fields)

    async def _ensure_role(self, manifest: Manifest, result: JobResult) -> None:
        """Apply the Role of a RoleBinding first: the API server rejects a binding to a missing Role."""
        ref = manifest.get("roleRef", {})
        if ref.get("kind") == "Role":
            await self.ensure(Key("Role", manifest["metadata"]["namespace"], ref["name"]), result)

    async def _read(self, key: Key) -> OwnedObject | None:
        """Read an object that the watches don't report."""
        with self._watches.writing(key):
            text = await self._writer.get(key)
            if text is None:
                return None
            owned = owned_decoder(key.kind)(text)
            self._watches.record_owned(key, owned)
        return owned

    async def _may_be_applied(self, key: Key, owned: OwnedObject, manifest: Manifest) -> bool:
        """Whether the object is this Gateway's. One of an earlier Gateway of the same name is deleted first."""
        check_ours(key, owned)
        check_not_of_another(key, owned, manifest)
        owner = next((ref["uid"] for ref in manifest["metadata"].get("ownerReferences", ())), "")
        has_other_owner = owned.owner != owner and bool(owned.owner)
        if (has_other_owner or _has_other_role(owned, manifest)) and not owned.is_deleting:
            await self._writer.delete(key, owned.uid, owned.version)
            return False
        return not owned.is_deleting  # the watch reports its deletion, and then it is recreated

    async def _apply(self, key: Key, manifest: Manifest, applicable: Manifest) -> OwnedObject:
        with self._watches.writing(key):
            try:
                answer = await self._send(key, manifest, applicable)
            except BaseException:
                self._rollouts.cancel(key)
                raise
            owned = owned_decoder(key.kind)(answer)
            self._watches.record_owned(key, owned)
        return owned

    async def _send(self, key: Key, manifest: Manifest, applicable: Manifest) -> bytes:
        try:
            return await self._writer.apply(applicable, manager=names.GATEWAY_MANAGER)
        except errors.FieldConflict as conflict:
            return await self._apply_rest(key, manifest, applicable, conflict)

    async def _apply_rest(
        self, key: Key, manifest: Manifest, applicable: Manifest, conflict: errors.FieldConflict
    ) -> bytes:
        """Leave the fields in conflict to their managers, and apply the rest. Half a Secret is useless."""
        if any(field.startswith(".data") for field in conflict.fields):
            raise conflict_in(key, conflict) from conflict
        known = self._left.get(key)
        fields = tuple(dict.fromkeys((*(known.fields if known else ()), *conflict.fields)))
        managers = tuple(dict.fromkeys((*(known.managers if known else ()), *conflict.managers)))
        answer = await self._writer.apply(without(applicable, fields), manager=names.GATEWAY_MANAGER)
        if (gateway := self._desired.gateway_of(key)) is None:  # it is no longer desired
            return answer
        left = LeftFields(manifest, fields, managers, held_by(managers, msgspec.json.decode(answer)))
        if not left.held:
            raise errors.Conflict(f"{key} was recreated, and {', '.join(managers)} holds nothing of it any more")
        self._left[key] = left
        holders = ", ".join(conflict.managers) or "another manager"
        message = f"{key}: {', '.join(conflict.fields)} is left to {holders}, which holds it"
        self._warnings.publish(gateway, "FieldConflict", message)
        return answer


def check_ours(key: Key, owned: OwnedObject) -> None:
    """Raise unless we applied the object."""
    if not owned.is_applied_by_us:
        raise errors.NotOurs(
            f"{key} exists and is not managed by Varnish Gateway; remove it, or give the Gateway another name"
        )


def check_not_of_another(key: Key, owned: OwnedObject, manifest: Manifest) -> None:
    """Raise where the object is that of a Gateway with another name: neither may delete what the other serves with."""
    name = manifest["metadata"]["annotations"][names.GATEWAY_ANNOTATION]
    if owned.gateway.name and owned.gateway.name != name:
        raise errors.NotOurs(f"{key} belongs to Gateway {owned.gateway.name}; give Gateway {name} another name")


def _has_other_role(owned: OwnedObject, manifest: Manifest) -> bool:
    """Whether a RoleBinding refers to another Role, which can't be changed."""
    return bool(manifest["kind"] == "RoleBinding" and owned.document["roleRef"] != manifest["roleRef"])


def _matches(owned: OwnedObject, manifest: Manifest) -> bool:
    document = owned.document
    stored = document["metadata"].get("annotations", {}).get(names.APPLIED_HASH)
    comparable = with_hashed_data(manifest) if manifest["kind"] == "Secret" else manifest
    content = {name: value for name, value in comparable.items() if name not in NOT_LISTED}
    return bool(stored == manifest["metadata"]["annotations"][names.APPLIED_HASH] and covers(document, content))
