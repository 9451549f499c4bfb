"""VarnishCacheInvalidations of files: ``vgw run`` carries each one out once.

In:   changed objects, and the caches of the Gateways.
Out:  a status for each object, and calls of ``report`` with those that have changed since, None for a deleted one.

An object is known by its key and its spec: a file that is read again changes nothing, and one whose spec is edited is
carried out again. A cache that holds nothing needs no invalidation. So those that are in the files when ``vgw run``
starts are complete at once: varnishd keeps no cache over its end. ghost still says whether it could carry them out, as
soon as it runs: a mistake must not wait for the day on which the object is edited.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from varnish_gateway import errors, ir
from varnish_gateway.api import Key, Object, VarnishCacheInvalidation
from varnish_gateway.ir.invalidation import Invalidation, read_invalidation
from varnish_gateway.runtime.backoff import Backoff
from varnish_gateway.translate.conditions import listed
from varnish_gateway.translate.invalidation.request import RequestFault, request_of
from varnish_gateway.translate.invalidation.summary import Outline, conditions

AT_ONCE = 4
"""How many ghost is asked to carry out at a time; each holds a thread of varnishd."""
FIRST_RETRY_SECONDS = 0.25
LAST_RETRY_SECONDS = 8.0
END_SECONDS = 60.0
"""After which the phase is Failed. It is tried until varnishd confirms, all the same: it may hold what is meant."""

_NO_GATEWAY = "GatewayNotFound"

Report = Callable[[Mapping[Key, ir.InvalidationStatus | None]], None]


class InvalidatedCache(Protocol):
    """The cache of one Gateway."""

    @property
    def may_hold_objects(self) -> bool: ...

    @property
    def attached(self) -> Collection[Key]: ...

    async def invalidate(self, invalidation: Invalidation, client: str) -> tuple[int, ...]: ...

    async def check(self, invalidation: Invalidation) -> None: ...


class FileInvalidations:
    """``caches`` returns the Gateways of the files; ``on_end`` gets each task that ends, for its exception."""

    def __init__(
        self,
        caches: Callable[[], Mapping[Key, InvalidatedCache]],
        report: Report,
        on_end: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self._caches = caches
        self._report = report
        self._on_end = on_end
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._objects: dict[Key, VarnishCacheInvalidation] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._unreported: dict[Key, ir.InvalidationStatus | None] = {}
        self.statuses: dict[Key, ir.InvalidationStatus] = {}

    @property
    def phases(self) -> Mapping[str, int]:
        """How many objects are in each phase."""
        return Counter(status.phase for status in self.statuses.values())

    def update(self, objects: Mapping[Key, Object | None]) -> None:
        """Apply changed objects, after the Gateways have theirs: which routes are attached counts."""
        for key, obj in objects.items():
            if isinstance(obj, VarnishCacheInvalidation):
                known = self._objects.get(key)
                self._objects[key] = obj
                if known is None or known.spec != obj.spec:
                    self._begin(key)
            elif key.kind == VarnishCacheInvalidation.kind and self._objects.pop(key, None) is not None:
                self._stop(key)
                del self.statuses[key]
                self._publish(key, None)

    def on_gateways(self, gateways: Collection[Key]) -> None:
        """Look again at what waits for a Gateway that did not exist."""
        for key, obj in self._objects.items():
            if obj.gateway in gateways and obj.gateway in self._caches() and _reason(self.statuses[key]) == _NO_GATEWAY:
                self._begin(key)

    async def close(self) -> None:
        """Carry nothing out any more."""
        tasks = list(self._tasks.values())
        for key in list(self._tasks):
            self._stop(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- one of them ---------------------------------------------------------------------

    def _begin(self, key: Key) -> None:
        self._stop(key)
        obj = self._objects[key]
        cache = self._caches().get(obj.gateway)
        if cache is None:
            message = f"{obj.gateway} is not in the files; correct gatewayRef, or add the Gateway"
            self._fail(key, RequestFault(_NO_GATEWAY, message))
            return
        request = request_of(obj, cache.attached)
        if isinstance(request, RequestFault):
            self._fail(key, request)
            return
        try:
            invalidation = read_invalidation(request.content)
        except errors.BadDocument as error:
            self._fail(key, RequestFault("Invalid", str(error)))
            return
        if cache.may_hold_objects:
            work = self._carry_out(key, invalidation, request.targets, request.restriction)
            self._set(key, Outline("InProgress", "Unknown", "InProgress", "", restriction=request.restriction))
        else:
            work = self._check(key, invalidation)
            message = "0 objects: nothing was stored when it was read"
            self._set(key, Outline("Complete", "True", "Complete", message, restriction=request.restriction))
        task = self._tasks[key] = asyncio.create_task(work)
        task.add_done_callback(self._on_end)

    async def _carry_out(
        self, key: Key, invalidation: Invalidation, targets: tuple[str, ...], restriction: str
    ) -> None:
        """Invalidate until varnishd confirms."""
        backoff, begun = Backoff(FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS), asyncio.get_running_loop().time()
        while True:
            try:
                async with self._turns:
                    counts = await self._cache(key).invalidate(invalidation, str(key))
            except errors.BadDocument as error:
                self._fail(key, RequestFault("Invalid", str(error)))
                return
            except OSError as error:
                is_late = asyncio.get_running_loop().time() - begun >= END_SECONDS
                self._set(key, _unconfirmed(str(error), restriction, is_late=is_late))
                await asyncio.sleep(backoff.next())
                continue
            each = listed([f"{target} {count}" for target, count in zip(targets, counts, strict=True)], ", ")
            message = f"{sum(counts)} objects: {each}"
            self._set(key, Outline("Complete", "True", "Complete", message, restriction=restriction), sum(counts))
            return

    async def _check(self, key: Key, invalidation: Invalidation) -> None:
        """Report what ghost could not carry out, as soon as it says so. Nothing is stored that is meant."""
        backoff = Backoff(FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS)
        while True:
            try:
                async with self._turns:
                    await self._cache(key).check(invalidation)
            except errors.BadDocument as error:
                self._fail(key, RequestFault("Invalid", str(error)))
            except OSError:
                await asyncio.sleep(backoff.next())
                continue
            return

    def _cache(self, key: Key) -> InvalidatedCache:
        """Return its cache at this moment; raise ConnectionError where its Gateway is gone: it may come back."""
        cache = self._caches().get(self._objects[key].gateway)
        if cache is None:
            raise ConnectionError(f"{self._objects[key].gateway} is not in the files any more")
        return cache

    def _fail(self, key: Key, fault: RequestFault) -> None:
        self._set(key, Outline("Failed", "False", fault.reason, fault.message, fault))

    def _set(self, key: Key, outline: Outline, objects: int = 0) -> None:
        generation = self._objects[key].metadata.generation
        status = ir.InvalidationStatus(outline.phase, generation, conditions(outline, generation), objects)
        if self.statuses.get(key) != status:
            self.statuses[key] = status
            self._publish(key, status)

    def _publish(self, key: Key, status: ir.InvalidationStatus | None) -> None:
        """Report it soon, with others that change at this moment: files may have thousands."""
        if not self._unreported:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unreported[key] = status

    def _flush(self) -> None:
        statuses, self._unreported = self._unreported, {}
        self._report(statuses)

    def _stop(self, key: Key) -> None:
        if (task := self._tasks.pop(key, None)) is not None:
            task.cancel()


def _unconfirmed(reason: str, restriction: str, *, is_late: bool) -> Outline:
    message = f"not confirmed yet: {reason}; it is tried again"
    if is_late:
        return Outline("Failed", "False", "NotConfirmed", message, restriction=restriction)
    return Outline("InProgress", "Unknown", "InProgress", message, restriction=restriction)


def _reason(status: ir.InvalidationStatus) -> str:
    return next(one.reason for one in status.conditions if one.type == "Accepted")
