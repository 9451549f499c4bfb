"""Write statuses.

In:   statuses from translation, verdicts about Gateways.
Out:  writes, only where the stored status says something else, and Events about what is wrong.

Each but that of our own class under the version that was seen: what is said of one spec is not stored with the next,
nor at another object that has the name by now. Gateways, ListenerSets and GatewayClasses by server-side apply. A
route's list of parents is one value to the API server, shared by all controllers: it is read, changed and written as a
whole.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from varnish_gateway import ir
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.ir.belonging import Belonging
from varnish_gateway.kube.events import Recorder
from varnish_gateway.kube.resources import RESOURCES
from varnish_gateway.operator.execute.writer import Writer
from varnish_gateway.operator.observe.sources import Seen, Sources
from varnish_gateway.operator.status.documents import (
    Applied,
    Document,
    applied_status,
    faults,
    is_waiting,
    route_status,
    stored_faults,
    told,
)
from varnish_gateway.operator.status.programmed import Verdict
from varnish_gateway.translate import with_parent_programmed, with_programmed

log = logging.getLogger(__name__)


class _Stored(msgspec.Struct):
    metadata: dict[str, Any]
    status: msgspec.Raw = msgspec.Raw(b"null")


class Statuses:
    """``is_foreign`` says whether another operator of our name speaks about a Gateway or ListenerSet."""

    def __init__(
        self,
        writer: Writer,
        sources: Sources,
        recorder: Recorder,
        controller: str,
        is_foreign: Callable[[Key], bool],
    ) -> None:
        self._writer = writer
        self._sources = sources
        self._recorder = recorder
        self._controller = controller
        self._is_foreign = is_foreign
        self._wanted: dict[Key, ir.Status | None] = {}
        self._belonging = Belonging()
        self.verdicts: dict[Key, Verdict] = {}

    def want(self, key: Key, status: ir.Status | None) -> None:
        """Take in a status; None: there is nothing left that we have to say."""
        if status is None and key not in self._sources.stated:
            self._wanted.pop(key, None)
        else:
            self._wanted[key] = status
        self.place(key)

    def place(self, key: Key) -> None:
        """Note whose a ListenerSet is: it may be another Gateway's although there is nothing else to say of it."""
        is_set = isinstance(self._wanted.get(key), ir.ListenerSetStatus)
        self._belonging.put(key, self._sources.gateway_of(key) if is_set else None)

    def recall(self, key: Key) -> bool:
        """Have taken back what is under our name at an object of which there is nothing to say.

        Return whether there is something: from an operator before us, or from a write whose answer never came.
        """
        seen = self._sources.stated.get(key)
        if seen is None or key in self._wanted:
            return False
        is_under_our_name = seen.is_told or (key.kind == "HTTPRoute" and self._controller.encode() in seen.status)
        if is_under_our_name:
            self._wanted[key] = None
        return is_under_our_name

    def about(self, gateway: Key) -> list[Key]:
        """Return what a verdict about a Gateway concerns: itself and its ListenerSets."""
        return self._belonging.concerned_by(gateway)

    @property
    def known(self) -> list[Key]:
        """Every object about which there is something to say."""
        return list(self._wanted)

    def speaks_of(self, key: Key) -> bool:
        """Whether there is a status to write, not only one to take back."""
        return self._wanted.get(key) is not None

    def __contains__(self, key: Key) -> bool:
        return key in self._wanted

    async def write(self, key: Key) -> None:
        """Have the status stored as it is wanted."""
        seen, wanted = self._sources.stated.get(key), self._wanted[key]
        if seen is None:  # the object is gone; it may be there again before translation hears of its end
            self._forget_withdrawn(key)
            return
        if key.kind == "HTTPRoute":
            await self._write_route(key, wanted, seen)  # type: ignore[arg-type]
        elif wanted is None:
            await self._withdraw(key, seen)
        elif isinstance(wanted, ir.GatewayClassStatus):
            if key == self._sources.class_key or is_waiting(wanted, seen.status):
                await self._apply(key, wanted, seen)
        elif (verdict := self.verdicts.get(self._belonging.gateway_of(key))) is not None:
            await self._apply(key, _completed(wanted, verdict), seen)  # type: ignore[arg-type]
        # Until there is a verdict there is nothing true to say.

    async def _apply(self, key: Key, wanted: Applied, seen: Seen) -> None:
        status = applied_status(wanted, seen.status, _now())
        if status is None:
            return
        is_our_class = key == self._sources.class_key  # its finalizer is written at the same time
        document = _document(key, status, "" if is_our_class else seen.version)
        answer = await self._writer.apply_status(document, manager=names.GATEWAY_MANAGER)
        self._written(key, answer, faults(status), seen)

    async def _write_route(self, key: Key, wanted: ir.RouteStatus | None, seen: Seen) -> None:
        status = route_status(wanted, seen.status, lambda entry: self._is_ours(key, entry), _now())
        if status is not None:
            patch = {"metadata": {"resourceVersion": seen.version}, "status": status}
            answer = await self._writer.patch_status(key, patch, manager=names.ROUTE_MANAGER)
            ours = {"parents": [entry for entry in status["parents"] if self._is_ours(key, entry)]}
            self._written(key, answer, faults(ours), seen)
        if wanted is None:
            self._forget_withdrawn(key)

    async def _withdraw(self, key: Key, seen: Seen) -> None:
        """Take back what we said about an object that is not ours any more."""
        if not self._is_foreign(key):  # or it is overwritten, by another operator under the same name
            answer = await self._writer.apply_status(_document(key, {}, seen.version), manager=names.GATEWAY_MANAGER)
            self._take_answer(key, answer)
        self._forget_withdrawn(key)

    def _forget_withdrawn(self, key: Key) -> None:
        if self._wanted.get(key) is None:  # still so after the write
            self._wanted.pop(key, None)

    def _is_ours(self, route: Key, entry: Document) -> bool:
        """Whether an entry of a route's parents is ours to write or remove."""
        if entry.get("controllerName") != self._controller:
            return False
        parent = entry.get("parentRef", {})
        namespace, name = parent.get("namespace", route.namespace), parent.get("name", "")
        return not self._is_foreign(Key(parent.get("kind", "Gateway"), namespace, name))

    def _written(self, key: Key, answer: bytes, wrong: list[Document], before: Seen) -> None:
        """Take in a write that was answered; tell what is wrong and was not before."""
        self._take_answer(key, answer)
        known = stored_faults(before.status)
        for condition in wrong:
            if told(condition) in known:
                continue
            log.warning("%s: %s %s: %s", key, condition["type"], condition["reason"], condition["message"])
            self._recorder.record(self._sources.reference(key), "Warning", condition["reason"], condition["message"])

    def _take_answer(self, key: Key, answer: bytes) -> None:
        stored = msgspec.json.decode(answer, type=_Stored)
        self._sources.answered_status(key, str(stored.metadata["resourceVersion"]), bytes(stored.status))


def _completed(status: ir.GatewayStatus | ir.ListenerSetStatus, verdict: Verdict) -> Applied:
    served, reason, message = verdict.served, verdict.reason, verdict.message
    if isinstance(status, ir.ListenerSetStatus):
        return with_parent_programmed(status, served=served, reason=reason, message=message)
    return with_programmed(status, served=served, reason=reason, message=message, addresses=verdict.addresses)


def _document(key: Key, status: Document, version: str) -> Document:
    """Return a status to apply; where there is a version it must be the stored one."""
    named = {"name": key.name, "namespace": key.namespace, "resourceVersion": version}
    metadata = {name: value for name, value in named.items() if value}
    resource = RESOURCES[key.kind]
    return {"apiVersion": resource.api_version, "kind": key.kind, "metadata": metadata, "status": status}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
