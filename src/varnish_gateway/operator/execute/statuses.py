"""Write statuses.

In:   the desired statuses, and the stored ones as observed.
Out:  writes where they differ, and Events about new faults.

Every write but that of our own class names the version we observed: a status about one spec is
never stored with the next one, nor at another object of the same name. Gateways, ListenerSets,
GatewayClasses and invalidations are written by server-side apply. All controllers share the list of a route's parents
and that of a policy's ancestors. Each is one value to the API server: it is read, changed and written
as a whole.
"""

import logging
import time
from typing import Any

import msgspec

from varnish_gateway import ir
from varnish_gateway.api import Key
from varnish_gateway.api.meta import timestamp
from varnish_gateway.emit import names
from varnish_gateway.kube.resources import RESOURCES
from varnish_gateway.operator.execute.events import Warnings
from varnish_gateway.operator.execute.writer import Writer
from varnish_gateway.operator.observe.inputs import ObservedInput
from varnish_gateway.operator.observe.watches import Watches
from varnish_gateway.operator.plan.results import JobResult
from varnish_gateway.operator.plan.statuses import DesiredStatuses
from varnish_gateway.operator.status.documents import (
    SHARED,
    Applied,
    Document,
    applied_status,
    faults,
    identity,
    needs_waiting_status,
    shared_status,
    stored_faults,
)
from varnish_gateway.translate.options import CONTROLLER

log = logging.getLogger(__name__)


class _Stored(msgspec.Struct):
    metadata: dict[str, Any]
    status: msgspec.Raw = msgspec.Raw(b"null")


class StatusWriter:
    def __init__(self, writer: Writer, watches: Watches, desired: DesiredStatuses, warnings: Warnings) -> None:
        self._writer = writer
        self._watches = watches
        self._observed = watches.observed
        self._desired = desired
        self._warnings = warnings

    async def ensure(self, key: Key, result: JobResult) -> None:
        """Write the desired status where the stored one differs."""
        observed, desired = self._observed.inputs.get(key), self._desired.get(key)
        if observed is None:  # deleted; it may be recreated before translation gets the deletion
            result.withdrawn.add(key)
        elif key.kind in SHARED:
            await self._write_shared(key, desired, observed, result)
        elif desired is None:
            await self._withdraw(key, observed, result)
        elif isinstance(desired, ir.InvalidationStatus):
            if desired.observed_generation == observed.obj.metadata.generation:
                await self._apply(key, desired, observed)
        elif isinstance(desired, ir.GatewayClassStatus):
            if key == self._observed.class_key or needs_waiting_status(desired, observed.status):
                await self._apply(key, desired, observed)
        elif (complete := self._desired.with_readiness(key, desired)) is not None:  # type: ignore[arg-type]
            await self._apply(key, complete, observed)

    async def _apply(self, key: Key, desired: Applied, observed: ObservedInput) -> None:
        status = applied_status(desired, observed.status, timestamp(time.time()))
        if status is None:
            return
        is_our_class = key == self._observed.class_key  # its finalizer is written at the same time
        document = _document(key, status, "" if is_our_class else observed.version)
        answer = await self._writer.apply_status(document, manager=names.GATEWAY_MANAGER)
        self._on_written(key, answer, faults(status), observed)

    async def _write_shared(
        self, key: Key, desired: ir.Status | None, observed: ObservedInput, result: JobResult
    ) -> None:
        shared = SHARED[key.kind]
        now = timestamp(time.time())
        status = shared_status(shared, desired, observed.status, lambda entry: self._is_ours(key, entry), now)
        if status is not None:
            patch = {"metadata": {"resourceVersion": observed.version}, "status": status}
            resource = self._watches.served(key.kind)
            answer = await self._writer.patch_status(resource, key, patch, manager=names.ROUTE_MANAGER)
            ours = {shared.name: [entry for entry in status[shared.name] if self._is_ours(key, entry)]}
            self._on_written(key, answer, faults(ours), observed)
        if desired is None:
            result.withdrawn.add(key)

    async def _withdraw(self, key: Key, observed: ObservedInput, result: JobResult) -> None:
        """Remove our status from an object that is no longer ours."""
        if not self._observed.is_foreign(key):  # another operator overwrites it under the same field manager
            document = _document(key, {}, observed.version)
            self._record(key, await self._writer.apply_status(document, manager=names.GATEWAY_MANAGER))
        result.withdrawn.add(key)

    def _is_ours(self, key: Key, entry: Document) -> bool:
        """Whether an entry of a route's parents, or a policy's ancestors, is ours to write or remove."""
        if entry.get("controllerName") != CONTROLLER:
            return False
        parent = entry.get(SHARED[key.kind].ref, {})
        namespace, name = parent.get("namespace", key.namespace), parent.get("name", "")
        return not self._observed.is_foreign(Key(parent.get("kind", "Gateway"), namespace, name))

    def _on_written(self, key: Key, answer: bytes, found: list[Document], before: ObservedInput) -> None:
        """Record the answer to a write; publish the faults that the previous status didn't have."""
        self._record(key, answer)
        known = stored_faults(before.status)
        for condition in found:
            if identity(condition) in known:
                continue
            log.warning("%s: %s %s: %s", key, condition["type"], condition["reason"], condition["message"])
            self._warnings.publish(key, condition["reason"], condition["message"])

    def _record(self, key: Key, answer: bytes) -> None:
        stored = msgspec.json.decode(answer, type=_Stored)
        self._watches.record_status(key, str(stored.metadata["resourceVersion"]), bytes(stored.status))


def _document(key: Key, status: Document, version: str) -> Document:
    """Return a status to apply; with a version, the stored object must have that one."""
    named = {"name": key.name, "namespace": key.namespace, "resourceVersion": version}
    metadata = {name: value for name, value in named.items() if value}
    resource = RESOURCES[key.kind]
    return {"apiVersion": resource.api_version, "kind": key.kind, "metadata": metadata, "status": status}
