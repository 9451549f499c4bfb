"""Keep up with all objects of one kind.

In:   a kind, perhaps one namespace, one name or selectors.
Out:  ``deliver`` is called with what changed: typed objects, or None for a deletion. One call for
      all that one chunk of the watch, or one page of a list, brought.
Promises: nothing is lost and nothing is delivered twice, whatever happens to the API server: a
watch goes on where it ended; where it can't, everything is listed anew and compared, so only what
differs is delivered, deletions included. One object that can't be read disturbs no other.
Only names and resource versions are kept here.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Generic, TypeVar

import msgspec

from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.discovery import served_version
from varnish_gateway.kube.limits import RequestBackoff, spread
from varnish_gateway.kube.resources import Resource
from varnish_gateway.kube.versions import is_newer
from varnish_gateway.kube.watching import Head, Page, Selection, events, head_of, page_of

log = logging.getLogger(__name__)

T = TypeVar("T")
Changes = dict[Key, T | None]

WATCH_SECONDS = 90
_GRACE_SECONDS = 15
"""So long is a server believed that says nothing: one that hangs sounds like one with nothing to say."""
_STABLE_SECONDS = 1.0
_ABSENT_SECONDS = 3.0
_LONGEST_WISH_SECONDS = 10.0
_REFUSALS_BEFORE_RELIST = 3


class Reflector(Generic[T]):
    """Watches one kind.

    ``problem`` says what is wrong now, if anything is; ``unanswered`` whether it is that the API
    server does not answer. A kind that is not installed is no problem: it is ``absent``.
    """

    def __init__(  # noqa: PLR0913 - which objects, by name
        self,
        client: Client,
        resource: Resource,
        decode: Callable[[msgspec.Raw], T],
        deliver: Callable[[Changes[T]], None],
        *,
        namespace: str = "",
        name: str = "",
        label_selector: str = "",
        field_selector: str = "",
        other_versions: tuple[str, ...] = (),
    ) -> None:
        self.synced = asyncio.Event()
        self.problem: str | None = None
        self.unanswered = False
        self.absent = False
        self._client = client
        self._metrics = client.metrics
        self._selection = Selection(resource, namespace, name, label_selector, field_selector)
        self._versions = (resource.version, *other_versions)
        self._decode = decode
        self._deliver = deliver
        self._known: dict[Key, str] = {}
        self._resume: str | None = None
        self._told: str | None = None
        self._refusals = 0
        self._lists = 0
        self._backoff = RequestBackoff()

    @property
    def resource(self) -> Resource:
        return self._selection.resource

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            while True:
                delay = await self._try()
                if delay:
                    await asyncio.sleep(delay)
        finally:
            self._metrics.objects[self.resource.kind] -= len(self._known)

    def note(self, key: Key, version: str) -> bool:
        """Take in what whoever we deliver to has from the answer to a write.

        It is not delivered once more; should it end unseen, that is delivered. Return False where it ended
        already: we have seen all up to a later version, and it is not there.
        """
        if key not in self._known and self._resume is not None and not is_newer(version, self._resume):
            return False
        self._remember(key, version)
        return True

    # -- what happens when something goes wrong ------------------------------------------------

    async def _try(self) -> float:
        """List if we have to, watch for as long as it goes; return how long to wait before the next time."""
        wished = 0.0
        try:
            await self._follow()
        except errors.Expired:
            self._resume = None
        except errors.NotFound:
            return await self._missing()
        except errors.Forbidden as error:
            self._trouble("may not be watched", error, level=logging.WARNING)
        except errors.Throttled as error:
            wished = min(error.retry_after, _LONGEST_WISH_SECONDS)
            self._trouble("can't be watched now", error)
        except errors.ApiRefused as error:
            self._refusals += 1
            if self._refusals >= _REFUSALS_BEFORE_RELIST:
                self._resume = None
            self._trouble("can't be watched now", error)
        except errors.Unreachable as error:
            self._trouble("can't be watched now", error)
        self._metrics.watch_restarts[self.resource.kind] += 1
        return max(self._backoff.next(), wished)

    async def _missing(self) -> float:
        """There is no such kind, or the API server does not know it yet: find out."""
        try:
            version = await served_version(self._client, self.resource, self._versions, surely=not self.absent)
        except errors.KubernetesError as error:
            self._trouble("can't be looked for", error)
            return self._backoff.next()
        self._resume = None
        if version is not None:
            self._selection = self._selection.at_version(version)
            return self._backoff.next()
        self._well()
        if not self.absent:
            self.absent = True
            log.info("%s is not installed in this cluster; it is picked up when it is", self.resource.kind)
            self._forget_all(set(self._known))
        self.synced.set()
        return spread(_ABSENT_SECONDS, 0.3)

    def _trouble(self, what: str, why: object, *, level: int = logging.INFO) -> None:
        """Remember a problem; log it once, although its details may vary."""
        self.problem = f"{self.resource.kind} {what}: {why}"
        self.unanswered = isinstance(why, errors.Unreachable)
        if what != self._told:
            log.log(level, "%s", self.problem)
        self._told = what

    def _well(self) -> None:
        self.problem = self._told = None
        self.unanswered = False

    # -- list and watch ------------------------------------------------------------------------

    async def _follow(self) -> None:
        if self._resume is None:
            self._resume = await self._list()
            self.synced.set()
        began = time.monotonic()
        try:
            await self._watch(self._resume)
        finally:
            if time.monotonic() - began > _STABLE_SECONDS:
                self._backoff.reset()

    async def _watch(self, resume: str) -> None:
        """Take what comes until the watch ends; it ends by itself after a while."""
        seconds = int(spread(WATCH_SECONDS, 0.1))
        path = self._selection.watch_path(resume, seconds)
        async with aclosing(self._client.lines(path, silence=seconds + _GRACE_SECONDS)) as chunks:
            async for lines in chunks:
                if self.problem is not None or self.absent:
                    log.info("%s is watched again", self.resource.kind)
                    self.absent = False
                    self._well()
                if lines:
                    self._take(lines)
                    self._refusals = 0
                    self._backoff.reset()

    async def _list(self) -> str:
        """Deliver what differs from what we know; return the resource version to watch from."""
        before, seen = set(self._known), set[Key]()
        page = Page()
        while True:
            path = self._selection.list_path(page.metadata.continue_)
            page = page_of(await self._client.read(path, kind=self.resource.kind, verb="list"))
            seen |= self._take_page(page)
            if not page.metadata.continue_:
                break
        version = page.metadata.resource_version
        # What was noted meanwhile may be newer than the list.
        unseen = self._known.keys() - seen
        self._forget_all({key for key in unseen if key in before or not is_newer(self._known[key], version)})
        if self._lists:
            self._metrics.relists[self.resource.kind] += 1
        self._lists += 1
        self._refusals = 0  # they were about the version before
        return version

    def _take_page(self, page: Page) -> set[Key]:
        """Deliver what is new on a page; return all that is on it."""
        changes: Changes[T] = {}
        seen = set()
        for raw in page.items:
            head = head_of(raw)
            key = self._key(head)
            seen.add(key)
            if self._known.get(key) != head.metadata.resource_version:
                self._put(changes, key, head, raw)
        self._hand_over(changes)
        return seen

    def _forget_all(self, gone: set[Key]) -> None:
        """Deliver the deletions that nobody told us of."""
        self._hand_over({key: None for key in gone if self._forget(key)})

    def _take(self, lines: list[bytes]) -> None:
        """Deliver what one chunk of the watch brought."""
        changes: Changes[T] = {}
        resume = self._resume
        try:
            for event in events(lines):
                head = event.head
                resume = head.metadata.resource_version
                if event.type == "BOOKMARK":
                    continue
                key = self._key(head)
                if event.type != "DELETED":
                    if self._known.get(key) != resume:
                        self._put(changes, key, head, event.object)
                elif self._forget(key):
                    changes[key] = None
        except errors.ApiRefused:
            resume = None
            raise
        finally:
            self._resume = resume
            self._hand_over(changes)

    def _put(self, changes: Changes[T], key: Key, head: Head, raw: msgspec.Raw) -> None:
        try:
            changes[key] = self._decode(raw)
        except (msgspec.MsgspecError, errors.InvalidInput, ValueError, RecursionError) as error:
            log.warning("%s can't be read, so its last good state stays: %s", key, error)
            self._metrics.undecodable[key.kind] += 1
        self._remember(key, head.metadata.resource_version)

    def _remember(self, key: Key, version: str) -> None:
        if key not in self._known:
            self._metrics.objects[key.kind] += 1
        self._known[key] = version

    def _forget(self, key: Key) -> bool:
        """Return whether it was known."""
        if self._known.pop(key, None) is None:
            return False
        self._metrics.objects[key.kind] -= 1
        return True

    def _hand_over(self, changes: Changes[T]) -> None:
        if changes:
            self._deliver(changes)

    def _key(self, head: Head) -> Key:
        return Key(self.resource.kind, head.metadata.namespace, head.metadata.name)
