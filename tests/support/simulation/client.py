"""Requests to the simulated API server, as the operator's Client offers them.

In:   a Store, and how long things take.
Out:  answers and refusals as from ``kube.client.Client``: a request takes a while by chance before it is done, its
      answer takes another while, and now and then it never arrives although all was done. Watches are late, each
      by itself, and what happened comes in pieces.
Promises: ``may_write`` is asked right before a write is done. ``writes`` are those that changed something.
"""

import asyncio
import contextlib
import random
import re
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec

from support.simulation.fields import Document, copied
from support.simulation.store import Change, Preconditions, Store, key_of
from support.simulation.virtualtime import now
from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.kube.metrics import Metrics
from varnish_gateway.kube.resources import RESOURCES, Resource

KINDS = {resource.plural: resource.kind for resource in RESOURCES.values()}
_COLLECTION = re.compile(
    r"/(?:api|apis/[^/]+)/(?P<version>[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[^/]+)"
)
_encode = msgspec.json.encode
WRONG_ANSWERS = 0.1
"""The share of lists that an overloaded API server answers with something else."""


class Delays(NamedTuple):
    """How many seconds a request, the news of a watch and its late news take at most, and the share of lost answers."""

    request: float = 0.05
    news: float = 0.15
    late_news: float = 1.0
    lost: float = 0.01


PROMPT = Delays(request=0.0001, news=0.0001, late_news=0.0001, lost=0.0)


def answers_to(kind: str) -> str:
    """Return the name of the answers to writes of a kind, for tests that hold them back."""
    return f"answers to {kind}"


class Write(NamedTuple):
    """One write that changed something."""

    verb: str
    key: Key
    document: Document


class Selection(NamedTuple):
    """What a list or a watch asks for."""

    kind: str
    version: str
    namespace: str
    query: dict[str, str]

    @classmethod
    def of(cls, path: str) -> "Selection":
        place, _, query = path.partition("?")
        found = _COLLECTION.fullmatch(place)
        assert found, path
        single = {name: values[0] for name, values in parse_qs(query).items()}
        return cls(KINDS[found["plural"]], found["version"], found["namespace"] or "", single)

    def has(self, document: Document) -> bool:
        """Whether a document is among those that are asked for."""
        metadata = document["metadata"]
        if self.namespace not in ("", metadata.get("namespace", "")):
            return False
        labels = metadata.get("labels", {})
        fields = {"metadata.name": metadata["name"], "type": document.get("type", "")}
        return _agrees(self.query.get("labelSelector"), labels) and _agrees(self.query.get("fieldSelector"), fields)


class SimulatedClient:
    def __init__(
        self,
        store: Store,
        chance: random.Random,
        delays: Delays = PROMPT,
        may_write: Callable[[], bool] | None = None,
    ) -> None:
        self.metrics = Metrics()
        self.writes: list[Write] = []
        self.delays = delays
        self._store = store
        self._chance = chance
        self._may_write = may_write
        self._held: dict[str, asyncio.Event] = {}

    # -- for a test that needs one order of events ----------------------------------------------

    def hold(self, *what: str) -> None:
        """Hold the news of a kind back, or ``answers_to`` writes of a kind, until they are released."""
        self._held.update((one, asyncio.Event()) for one in what)

    def release(self, *what: str) -> None:
        for one in what:
            self._held.pop(one).set()

    async def _released(self, what: str) -> None:
        while what in self._held:
            await self._held[what].wait()

    # -- objects ------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> bytes:
        await self._arrive()
        try:
            return _encode(self._store.get(Key(resource.kind, namespace, name)))
        finally:
            await self._on_the_way()

    async def apply(
        self,
        document: Document,
        *,
        manager: str,
        subresource: str = "",
        force: bool = False,
        metadata_only: bool = False,
    ) -> bytes:
        sent = copied(document)
        verb = f"apply {subresource}".rstrip()

        def write() -> Document:
            return self._store.apply(sent, manager, subresource=subresource, force=force)

        answer = await self._written(Write(verb, key_of(sent), sent), write)
        return _encode({"metadata": answer["metadata"]} if metadata_only else answer)

    async def patch(
        self,
        resource: Resource,
        name: str,
        document: Document,
        *,
        manager: str,
        namespace: str = "",
        subresource: str = "",
    ) -> bytes:
        sent, key = copied(document), Key(resource.kind, namespace, name)

        def write() -> Document:
            return self._store.patch(key, sent, manager, subresource=subresource)

        return _encode(await self._written(Write("patch", key, sent), write, resource.version))

    async def delete(
        self, resource: Resource, name: str, *, namespace: str = "", uid: str = "", version: str = ""
    ) -> None:
        key, conditions = Key(resource.kind, namespace, name), Preconditions(uid, version)
        with contextlib.suppress(errors.NotFound):
            await self._written(Write("delete", key, {}), lambda: self._store.remove(key, conditions, "operator"))

    async def _written(self, write: Write, do: Callable[[], Any], version: str = "") -> Any:
        """Do it after a while, if we still may then; return the answer, if it arrives."""
        await self._arrive()
        if self._may_write is not None and not self._may_write():
            raise errors.NotLeading("the lease is lost")
        self._store.check_served(write.key.kind, version)
        self._store.faults.check_admitted(write.key)
        before = self._store.version
        try:
            answer = do()
        finally:
            if self._store.version != before:
                self.writes.append(write)
            await self._on_the_way()
            await self._released(answers_to(write.key.kind))
        if self._chance.random() < self.delays.lost:
            raise errors.Unreachable("the answer was lost")
        self._check_refused()  # a 500 or 504 may come after all was done
        return answer

    # -- lists and watches --------------------------------------------------------------------

    async def read(self, path: str, *, kind: str = "", verb: str = "get", accept: str = "") -> bytes:  # noqa: ARG002 - as the Client has it
        await self._arrive()
        if path == "/readyz":
            return b"ok"
        if verb == "discover":
            version = path.rpartition("/")[2]
            served = [{"name": plural} for plural, one in KINDS.items() if self._store.serves(one, version)]
            return _encode({"kind": "APIResourceList", "resources": served})
        if self._store.faults.storm and self._chance.random() < WRONG_ANSWERS:
            return _encode({"kind": "Status", "status": "Success"})
        selection = Selection.of(path)
        self._store.check_served(selection.kind, selection.version)
        items = [document for document in self._store.of_kind(selection.kind) if selection.has(document)]
        metadata = {"resourceVersion": str(self._store.version)}
        page = _encode({"kind": f"{selection.kind}List", "metadata": metadata, "items": items})
        await self._on_the_way()
        return page

    async def lines(self, path: str, *, silence: float) -> AsyncGenerator[list[bytes], None]:  # noqa: ARG002 - as the Client has it
        await self._arrive()
        store, selection = self._store, Selection.of(path)
        at, breaks = int(selection.query["resourceVersion"]), store.breaks
        end = now() + float(selection.query["timeoutSeconds"])
        store.check_served(selection.kind, selection.version)
        yield []
        while store.breaks == breaks and store.serves(selection.kind, selection.version) and now() < end:
            if not store.since(selection.kind, at):
                await self._news_until(end, selection.kind)
                continue
            await self._late()
            await self._released(selection.kind)
            changes = self._some(store.since(selection.kind, at))
            at = changes[-1].version
            if lines := [line for change in changes if (line := _line(change, selection))]:
                yield lines

    async def _news_until(self, end: float, kind: str) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(end):
                await self._store.news(kind)

    def _some(self, changes: list[Change]) -> list[Change]:
        """Return all of them, or the first ones."""
        return changes if self._chance.random() < 0.6 else changes[: self._chance.randint(1, len(changes))]

    # -- time ---------------------------------------------------------------------------------

    async def _arrive(self) -> None:
        """Let a request reach the API server, which may refuse it."""
        await self._on_the_way()
        self._check_refused()

    def _check_refused(self) -> None:
        if (refusal := self._store.faults.refusal(self._chance)) is not None:
            raise refusal

    async def _on_the_way(self) -> None:
        await asyncio.sleep(self._chance.random() ** 3 * self.delays.request)

    async def _late(self) -> None:
        most = self.delays.news if self._chance.random() < 0.8 else self.delays.late_news
        await asyncio.sleep(self._chance.random() ** 3 * most)


def _agrees(selector: str | None, values: dict[str, str]) -> bool:
    pairs = (part.split("=", 1) for part in selector.split(",")) if selector else ()
    return all(values.get(name) == value for name, value in pairs)


def _line(change: Change, selection: Selection) -> bytes | None:
    """Return the watch event for a change; None where the change is outside the watch."""
    was = change.before is not None and selection.has(change.before)
    remains = change.type != "DELETED" and selection.has(change.after)
    if not was and not remains:
        return None
    type_ = "MODIFIED" if was and remains else "ADDED" if remains else "DELETED"
    shown = change.after if remains or change.before is None else change.before
    metadata = {**shown["metadata"], "resourceVersion": str(change.version)}
    return _encode({"type": type_, "object": {**shown, "metadata": metadata}})
