"""Events: what `kubectl describe` shows below an object.

In:   ``record``, from anywhere: it never blocks and never raises.
Out:  Event objects. What repeats within ten minutes raises the count of one Event; who has
      too much to say about one object is cut short; what can't be written is dropped and counted.
"""

import asyncio
import contextlib
import hashlib
import logging
import time
from collections import OrderedDict
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from varnish_gateway import errors
from varnish_gateway.api.meta import timestamp
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.limits import Bucket, RequestBackoff
from varnish_gateway.kube.resources import RESOURCES

log = logging.getLogger(__name__)

REPEAT_SECONDS = 600.0
MOST_WAITING = 1000
MOST_REMEMBERED = 10_000
PER_OBJECT = 25
PER_OBJECT_SECONDS = 60.0
_MESSAGE_LENGTH = 1024
_EVENT = RESOURCES["Event"]


class Reference(NamedTuple):
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


Same = tuple[Reference, str, str, str]


class Entry(Struct):
    """One Event: what is to be written, and what was."""

    about: Reference
    type: str
    reason: str
    message: str
    name: str
    first: float
    last: float
    count: int = 1
    written: bool = False


class Recorder:
    """Writes Events one after the other; ``run`` has to run for that."""

    def __init__(self, client: Client, *, component: str, instance: str) -> None:
        self._client = client
        self._metrics = client.metrics
        self._component = component
        self._instance = instance
        self._entries: OrderedDict[Same, Entry] = OrderedDict()
        self._buckets: OrderedDict[Reference, Bucket] = OrderedDict()
        self._waiting: OrderedDict[Same, Entry] = OrderedDict()
        self._wake = asyncio.Event()
        self._backoff = RequestBackoff()

    def record(self, about: Reference, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Note that something happened to an object."""
        now, message = time.time(), message[:_MESSAGE_LENGTH]
        same = (about, kind, reason, message)
        self._forget(now)
        if not self._allowed(about) or (same not in self._waiting and len(self._waiting) >= MOST_WAITING):
            self._metrics.events_dropped += 1
            return
        entry = self._entries.get(same)
        if entry is None:
            entry = Entry(about, kind, reason, message, _name(same, now), now, now)
            self._entries[same] = entry
        else:
            entry.count += 1
            entry.last = now
            self._entries.move_to_end(same)
        self._waiting[same] = entry
        self._wake.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self._write_next()

    # -- inside --------------------------------------------------------------------------------

    def _forget(self, now: float) -> None:
        """Let go of what is too old to be repeated."""
        while self._entries:
            same, oldest = next(iter(self._entries.items()))
            if now - oldest.last < REPEAT_SECONDS and len(self._entries) < MOST_REMEMBERED:
                return
            del self._entries[same]

    def _allowed(self, about: Reference) -> bool:
        """Tell whether an object may have one more; its allowance grows back slowly."""
        bucket = self._buckets.pop(about, None) or Bucket(1 / PER_OBJECT_SECONDS, PER_OBJECT)
        self._buckets[about] = bucket
        if len(self._buckets) > MOST_REMEMBERED:
            self._buckets.popitem(last=False)
        return bucket.allows(time.monotonic())

    async def _write_next(self) -> None:
        same, entry = self._waiting.popitem(last=False)
        try:
            await self._write(entry)
            self._backoff.reset()
        except errors.Unreachable:
            self._waiting.setdefault(same, entry)
            await asyncio.sleep(self._backoff.next())
        except errors.KubernetesError as error:
            log.info("an Event about %s %s is not written: %s", entry.about.kind, entry.about.name, error)
            self._metrics.events_dropped += 1
            self._entries.pop(same, None)

    async def _write(self, entry: Entry) -> None:
        """Create the Event, or raise the count of the one that is there."""
        if entry.written:
            try:
                await self._count(entry)
            except errors.NotFound:  # the API server forgets Events after an hour
                entry.written = False
            else:
                return
        with contextlib.suppress(errors.Conflict):  # it got through although the answer did not
            await self._client.create(self._document(entry), manager=self._component)
        entry.written = True

    async def _count(self, entry: Entry) -> None:
        patch = {"count": entry.count, "lastTimestamp": timestamp(entry.last)}
        namespace = _namespace(entry.about)
        await self._client.patch(_EVENT, entry.name, patch, namespace=namespace, manager=self._component)

    def _document(self, entry: Entry) -> dict[str, Any]:
        about = entry.about
        return {
            "apiVersion": _EVENT.api_version,
            "kind": _EVENT.kind,
            "metadata": {"name": entry.name, "namespace": _namespace(about)},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "name": about.name,
                **({"namespace": about.namespace} if about.namespace else {}),
                **({"uid": about.uid} if about.uid else {}),
            },
            "type": entry.type,
            "reason": entry.reason,
            "message": entry.message,
            "count": entry.count,
            "firstTimestamp": timestamp(entry.first),
            "lastTimestamp": timestamp(entry.last),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }


def _namespace(about: Reference) -> str:
    """Return the namespace of an Event: by convention, default for cluster-scoped objects."""
    return about.namespace or "default"


def _name(same: Same, now: float) -> str:
    """Return a unique name for an Event; by convention, it begins with the object's name."""
    digest = hashlib.sha256(f"{same}{now}".encode()).hexdigest()[:16]
    return f"{same[0].name[:230].rstrip('.-')}.{digest}"
