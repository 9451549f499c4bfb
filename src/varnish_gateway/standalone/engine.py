"""Serve files: ``vgw run``.

In:   paths of manifests, watched.
Out:  a data plane for every Gateway in them, and a log of what is wrong and what serves.

files → objects → translation → one Plane for each Gateway. Each step takes only what
changed. A file that is wrong changes nothing but the log.
"""

import asyncio
import contextvars
import logging
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from varnish_gateway.api import EndpointSlice, Key, ListenerSet, Object
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir import Delta, GatewayStatus, ListenerSetStatus, Status
from varnish_gateway.ir.belonging import Belonging
from varnish_gateway.standalone.files import Files
from varnish_gateway.standalone.plane import Plane
from varnish_gateway.standalone.schema import Catalogue
from varnish_gateway.standalone.translation import file_translator
from varnish_gateway.standalone.tree import check_roots
from varnish_gateway.standalone.verdicts import describe, faults
from varnish_gateway.standalone.watcher import Watcher
from varnish_gateway.translate import with_parent_programmed, with_programmed

MANY = 20
"""More good statuses than this at once are counted in the log, not listed."""

LONGEST_NAME = 48

log = logging.getLogger(__name__)


class Engine:
    """Everything that serves a set of files."""

    def __init__(self, paths: Sequence[str], work_dir: Path) -> None:
        check_roots(paths)
        self._paths = paths
        self._work_dir = work_dir
        self._files = Files(Catalogue())
        self._translator = file_translator()
        self._slices: dict[Key, EndpointSlice] = {}
        self._statuses: dict[Key, GatewayStatus | ListenerSetStatus] = {}
        self._belonging = Belonging()
        self._programmed: dict[Key, tuple[bool, str]] = {}
        self._said: dict[Key, str] = {}
        self._closing: dict[Key, asyncio.Task[None]] = {}
        self._context = contextvars.copy_context()
        self._crash: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.planes: dict[Key, Plane] = {}

    async def serve(self) -> None:
        """Follow the files until cancelled."""
        with Watcher(self._paths) as watcher:
            self.take(watcher.files)
            if not self.planes:
                log.warning("there is no Gateway to serve yet; waiting for changes of %s", ", ".join(self._paths))
            while True:
                self.take(await self._unless_crashed(watcher.changed()))

    async def _unless_crashed(self, changed: Coroutine[None, None, set[str]]) -> set[str]:
        """Wait for changes; a data plane that ends by a fault of ours ends everything."""
        waiting = asyncio.ensure_future(changed)
        either: set[asyncio.Future[Any]] = {waiting, self._crash}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._crash.done():
                self._crash.result()
            return await waiting
        finally:
            waiting.cancel()

    async def drain(self) -> None:
        """Wait until nobody is connected any more, but not for long."""
        await asyncio.gather(*(plane.drain() for plane in self.planes.values()))

    async def close(self) -> None:
        """Stop every data plane, all at the same time."""
        closing = [*(plane.close() for plane in self.planes.values()), *self._closing.values()]
        results = await asyncio.gather(*closing, return_exceptions=True)
        for fault in results:
            if isinstance(fault, BaseException):
                raise fault

    def take(self, paths: Iterable[str]) -> None:
        """Read changed files and hand over what they come to."""
        changes = self._files.update(paths)
        for complaint in changes.complaints:
            log.error("%s", complaint)
        for complaint in changes.ignored:
            log.warning("%s", complaint)
        if changes.objects:
            delta = self._translator.update(changes.objects)
            self._note_sets(changes.objects)
            self._hand_over(delta, self._changed_slices(changes.objects))
            self._report(delta.statuses)

    def _note_sets(self, objects: Mapping[Key, Object | None]) -> None:
        for key, obj in objects.items():
            if key.kind == ListenerSet.kind:
                self._belonging.put(key, obj.gateway if isinstance(obj, ListenerSet) else None)

    def _changed_slices(self, objects: Mapping[Key, Object | None]) -> dict[Key, EndpointSlice | None]:
        changed: dict[Key, EndpointSlice | None] = {}
        for key, obj in objects.items():
            if key.kind != EndpointSlice.kind:
                continue
            if isinstance(obj, EndpointSlice):
                changed[key] = self._slices[key] = obj
            else:
                changed[key] = None
                self._slices.pop(key, None)
        return changed

    def _hand_over(self, delta: Delta, slices: Mapping[Key, EndpointSlice | None]) -> None:
        for key, changed in delta.gateways.items():
            if changed is None:
                self._remove(key)
            elif key in self.planes:
                self.planes[key].want(changed, slices)
            else:
                self.planes[key] = self._start(key)
                self.planes[key].want(changed, self._slices)
        if slices:
            for key in self.planes.keys() - delta.gateways.keys():
                self.planes[key].want(None, slices)

    def _start(self, key: Key) -> Plane:
        plane = Plane(key, self._work_dir / directory_name(key), self._hear, after=self._closing.get(key))
        plane.task.add_done_callback(self._ended)
        return plane

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (fault := task.exception()) and not self._crash.done():
            self._crash.set_exception(fault)

    def _remove(self, key: Key) -> None:
        if (plane := self.planes.pop(key, None)) is not None:
            log.info("%s is gone: stopping its data plane", key)
            closing = asyncio.create_task(_drain_and_close(plane, self._closing.get(key)))
            self._closing[key] = closing
            closing.add_done_callback(lambda _: self._forget(key, closing))
            closing.add_done_callback(self._ended)
        self._programmed.pop(key, None)

    def _forget(self, key: Key, closed: asyncio.Task[None]) -> None:
        if self._closing.get(key) is closed:
            del self._closing[key]

    # -- what is said --------------------------------------------------------------------

    def _hear(self, key: Key, served: bool, message: str) -> None:
        """Hear from a data plane; what is said about it then is not part of its own log."""
        asyncio.get_running_loop().call_soon(self._programme, key, served, message, context=self._context)

    def _programme(self, key: Key, served: bool, message: str) -> None:
        """Take in whether a data plane serves what is wanted."""
        if key not in self.planes:
            return
        self._programmed[key] = (served, message)
        concerned = self._belonging.concerned_by(key)
        self._report({one: self._statuses[one] for one in concerned if one in self._statuses})

    def _report(self, statuses: Mapping[Key, Status | None]) -> None:
        """Log statuses that say something new."""
        good: dict[Key, str] = {}
        for key, status in statuses.items():
            if status is None:
                self._said.pop(key, None)
                self._statuses.pop(key, None)
                continue
            known = self._known(key, status)
            line = describe(key, known)
            if self._said.get(key) == line:
                continue
            self._said[key] = line
            if faults(known):
                log.warning("%s", line)
            else:
                good[key] = line
        self._report_good(good)

    def _known(self, key: Key, status: Status) -> Status:
        """Return the status with what its data plane told."""
        if not isinstance(status, GatewayStatus | ListenerSetStatus):
            return status
        self._statuses[key] = status
        gateway = self._belonging.gateway_of(key)
        if gateway not in self._programmed:
            return status
        served, message = self._programmed[gateway]
        if isinstance(status, ListenerSetStatus):
            return with_parent_programmed(status, served=served, message=message)
        return with_programmed(status, served=served, message=message)

    @staticmethod
    def _report_good(good: Mapping[Key, str]) -> None:
        kinds = Counter(key.kind for key in good)
        for key, line in good.items():
            if kinds[key.kind] <= MANY:
                log.info("%s", line)
        for kind, count in kinds.items():
            if count > MANY:
                log.info("%d objects of the kind %s are accepted", count, kind)


def directory_name(key: Key) -> str:
    """Return a name that no other Gateway has, short enough for the Unix sockets inside it."""
    # Names of namespaces hold no dot, so that this is unambiguous.
    whole = f"{key.namespace}.{key.name}"
    return whole if len(whole) <= LONGEST_NAME else f"{whole[: LONGEST_NAME - 18]}..{content_hash(whole.encode())}"


async def _drain_and_close(plane: Plane, former: asyncio.Task[None] | None) -> None:
    """End a plane; return when the former one of its Gateway has ended too, for they share a directory."""
    try:
        await plane.drain()
    finally:
        await plane.close()
    if former is not None:
        await asyncio.wait({former})
