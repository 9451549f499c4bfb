"""Watch all objects of one kind.

In:   a kind, and optionally a namespace, a name or selectors.
Out:  ``deliver`` is called with changes: typed objects, or None for a deletion. Each chunk of the
      watch and each page of a list is delivered with one call.
Promises: no change is lost or delivered twice, whatever happens to the API server. A broken watch
resumes where it stopped. Where it can't, the reflector lists everything, compares and delivers only
the differences, deletions included. An object that can't be decoded does not affect others.
The reflector keeps only names and resource versions.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.discovery import served_version
from varnish_gateway.kube.limits import RequestBackoff, spread
from varnish_gateway.kube.resources import Resource
from varnish_gateway.kube.versions import is_newer
from varnish_gateway.kube.watching import Head, Page, Selection, events, page_of

log = logging.getLogger(__name__)

T = TypeVar("T")
Changes = dict[Key, T | None]

WATCH_SECONDS = 90
_GRACE_SECONDS = 15
"""How long a silent watch is trusted after its end is due: a hung server looks like one without events."""
_STABLE_SECONDS = 1.0
_ABSENT_SECONDS = 3.0
_POLL_SECONDS = 0.1
_REFUSALS_BEFORE_RELIST = 3


class Reflector(Generic[T]):
    """Watches one kind.

    ``problem`` is the current problem, if there is one; ``unanswered``: the API server does not respond.
    A kind that is not installed is ``absent``, which is not a problem.
    """

    def __init__(  # noqa: PLR0913 - selection, by name
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
        self._forbidden_since: float | None = None
        self._client = client
        self._metrics = client.metrics
        self._selection = Selection(resource, namespace, name, label_selector, field_selector)
        self._versions = (resource.version, *other_versions)
        self._decode = decode
        self._deliver = deliver
        self._known: dict[Key, str] = {}
        self._resume: str | None = None
        self._logged: str | None = None
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

    async def until_listed(self, *, forbidden: float, at_most: float = math.inf) -> None:
        """Wait for the first list; give up once it was forbidden for so many seconds, or after ``at_most``.

        403 is an answer. No response, 401, 429 and 5xx are not: they say nothing about the objects.
        """
        end = time.monotonic() + at_most
        while not self.synced.is_set():
            now = time.monotonic()
            if now >= end or (self._forbidden_since is not None and now - self._forbidden_since >= forbidden):
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await self.synced.wait()

    def note(self, key: Key, version: str) -> bool:
        """Record an object that the caller has from the response to a write.

        It is not delivered again; its deletion will be. Return False if it is deleted already: the
        reflector has seen all events up to a later version, and the object does not exist.
        """
        if key not in self._known and self._resume is not None and not is_newer(version, self._resume):
            return False
        self._remember(key, version)
        return True

    # -- failures ------------------------------------------------------------------------------

    async def _try(self) -> float:
        """List if necessary, then watch until the watch ends; return the seconds to wait before the next attempt."""
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
            wished = error.retry_after
            self._trouble("can't be watched now", error)
        except errors.ApiError as error:
            wished = error.retry_after
            self._refusals += 1
            if self._refusals >= _REFUSALS_BEFORE_RELIST:
                self._resume = None
            self._trouble("can't be watched now", error)
        except errors.Unreachable as error:
            self._trouble("can't be watched now", error)
        self._metrics.watch_restarts[self.resource.kind] += 1
        return self._backoff.next(asked=wished)

    async def _missing(self) -> float:
        """Find out whether the kind is not installed, or the API server is only starting."""
        try:
            version = await served_version(self._client, self.resource, self._versions, surely=not self.absent)
        except errors.KubernetesError as error:
            self._trouble("can't be discovered", error)
            return self._backoff.next()
        self._resume = None
        if version is not None:
            self._selection = self._selection.at_version(version)
            return self._backoff.next()
        self._well()
        if not self.absent:
            self.absent = True
            log.info("%s is not installed in this cluster; the operator watches it once it is", self.resource.kind)
            self._forget_all(set(self._known))
        self.synced.set()
        return spread(_ABSENT_SECONDS, 0.3)

    def _trouble(self, what: str, why: object, *, level: int = logging.INFO) -> None:
        """Remember a problem; log it once, although its details may vary."""
        self.problem = f"{self.resource.kind} {what}: {why}"
        self.unanswered = isinstance(why, errors.Unreachable)
        is_forbidden = isinstance(why, errors.Forbidden) and why.status == 403
        since = self._forbidden_since
        self._forbidden_since = (time.monotonic() if since is None else since) if is_forbidden else None
        if what != self._logged:
            log.log(level, "%s", self.problem)
        self._logged = what

    def _well(self) -> None:
        self.problem = self._logged = self._forbidden_since = None
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
        """Deliver events until the watch ends; the API server ends it after a while."""
        seconds = int(spread(WATCH_SECONDS, 0.1))
        path = self._selection.watch_path(resume, seconds)
        async with contextlib.aclosing(self._client.lines(path, silence=seconds + _GRACE_SECONDS)) as chunks:
            async for lines in chunks:
                if self.problem is not None or self.absent:
                    log.info("%s is watched again", self.resource.kind)
                    self.absent = False
                    self._well()
                if lines:
                    self._deliver_events(lines)
                    self._refusals = 0
                    self._backoff.reset()

    async def _list(self) -> str:
        """Deliver the differences to what is known; return the resource version to watch from."""
        before, seen = set(self._known), set[Key]()
        onward = ""
        while True:
            path = self._selection.list_path(onward)
            page = page_of(await self._client.read(path, kind=self.resource.kind, verb="list"), self.resource.kind)
            seen |= self._deliver_page(page)
            onward = page.metadata.continue_
            if not onward:
                break
        version = page.metadata.resource_version
        # An object that was recorded meanwhile may be newer than the list.
        unseen = self._known.keys() - seen
        self._forget_all({key for key in unseen if key in before or not is_newer(self._known[key], version)})
        if self._lists:
            self._metrics.relists[self.resource.kind] += 1
        self._lists += 1
        self._refusals = 0  # they concerned the previous resource version
        return version

    def _deliver_page(self, page: Page) -> set[Key]:
        """Deliver what is new on a page; return the keys of all its objects."""
        changes: Changes[T] = {}
        seen = set()
        for head, raw in page.objects:
            key = self._key(head)
            seen.add(key)
            if self._known.get(key) != head.metadata.resource_version:
                self._put(changes, key, head, raw)
        self._hand_over(changes)
        return seen

    def _forget_all(self, gone: set[Key]) -> None:
        """Deliver deletions that no event reported."""
        self._hand_over({key: None for key in gone if self._forget(key)})

    def _deliver_events(self, lines: list[bytes]) -> None:
        """Deliver the events of one chunk of the watch."""
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
        except errors.ApiError:
            resume = None
            raise
        finally:
            self._resume = resume
            self._hand_over(changes)

    def _put(self, changes: Changes[T], key: Key, head: Head, raw: msgspec.Raw) -> None:
        try:
            changes[key] = self._decode(raw)
        except (msgspec.MsgspecError, errors.InvalidInput, ValueError, RecursionError) as error:
            log.warning("can't decode %s; its previous state is kept: %s", key, error)
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
