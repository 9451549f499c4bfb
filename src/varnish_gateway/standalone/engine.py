"""Serve files: ``vgw run``.

In:   paths of manifests, watched.
Out:  a data plane for every Gateway in them; the log reports errors and what serves.

files → objects → translation → one Plane for each Gateway. Each step processes only what
changed. An invalid file changes nothing but the log. A thread compiles regular expressions.
"""

import asyncio
import contextvars
import logging
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from varnish_gateway.api import EndpointSlice, Key, Object, VarnishCacheInvalidation
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir import Delta, GatewayStatus, InvalidationStatus, ListenerSetStatus, Status
from varnish_gateway.runtime.match_compiler import MatchCompiler
from varnish_gateway.standalone.files.reader import Files
from varnish_gateway.standalone.files.tree import check_roots
from varnish_gateway.standalone.files.watcher import Watcher
from varnish_gateway.standalone.invalidations import FileInvalidations
from varnish_gateway.standalone.plane import Plane
from varnish_gateway.standalone.programmed import PlaneReport, with_report
from varnish_gateway.standalone.schema import Catalogue
from varnish_gateway.standalone.translation import file_translator
from varnish_gateway.standalone.verdicts import describe, faults
from varnish_gateway.translate.tls.served import served_after

MANY = 20
"""More accepted objects than this at once are counted in the log, not listed."""

LONGEST_NAME = 48

log = logging.getLogger(__name__)


class Engine:
    """Everything that serves a set of files."""

    def __init__(self, paths: Sequence[str], work_dir: Path, tokens: Path | None = None) -> None:
        """``tokens`` is a file that varnishd must not read."""
        check_roots(paths)
        self._paths = paths
        self._work_dir = work_dir
        self._tokens = tokens
        self._files = Files(Catalogue())
        self._translator = file_translator(compiles=False)
        self._compiler = MatchCompiler(self._on_compiled)
        self._slices: dict[Key, EndpointSlice] = {}
        self._served: Mapping[Key, Object | None] = {}  # what the next translation has to know about certificates
        self._statuses: dict[Key, GatewayStatus | ListenerSetStatus] = {}
        self._programmed: dict[Key, PlaneReport] = {}
        self._logged: dict[Key, str] = {}
        self._faults: dict[Key, str] = {}
        self._frozen: set[Key] = set()  # Gateways that keep serving though translation has dropped them
        self._closing: dict[Key, asyncio.Task[None]] = {}
        self._context = contextvars.copy_context()
        self._watcher: Watcher | None = None
        self._first: Delta | None = None  # what is translated while the first files load
        self._crash: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.planes: dict[Key, Plane] = {}
        self._changed_invalidations: dict[Key, Object | None] = {}
        self.invalidations = FileInvalidations(lambda: self.planes, self._on_invalidations, self._on_done)
        self.rejections = 0
        """How many times a file was read and something in it was rejected."""

    @property
    def problems(self) -> list[str]:
        """What the user has to correct, for all to be served as the files say."""
        files = self._files.objects
        of_objects = (line for _, line in sorted(self._faults.items()))
        return [*map(str, files.complaints), *of_objects, *map(str, files.findings)]

    @property
    def is_up_to_date(self) -> bool:
        """Whether the newest files are in force, each of them as a whole."""
        return not self._files.objects.complaints

    async def serve(self) -> None:
        """Apply changes of the files until cancelled."""
        with Watcher(self._paths) as watcher:
            self._watcher = watcher
            await self._load(watcher.files)
            if not self.planes:
                log.warning("found no Gateway to serve; waiting for changes of %s", ", ".join(self._paths))
            while True:
                self.update(await self._unless_crashed(watcher.changed()))

    def reread(self) -> None:
        """Read every file again, also those that did not change."""
        if self._watcher is not None:
            files = self._watcher.rescan()
            log.info("reading all files again, %d in number", len(files))
            self.update(files, again=True)

    async def _unless_crashed(self, changed: Coroutine[None, None, set[str]]) -> set[str]:
        """Wait for changes; a bug in the task of a data plane stops the whole process."""
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
        """Wait until all connections are closed, for DRAIN_SECONDS at most."""
        await asyncio.gather(*(plane.drain() for plane in self.planes.values()))

    async def close(self) -> None:
        """Stop every data plane, all at the same time."""
        self._compiler.close()
        await self.invalidations.close()
        closing = [*(plane.close() for plane in self.planes.values()), *self._closing.values()]
        results = await asyncio.gather(*closing, return_exceptions=True)
        for fault in results:
            if isinstance(fault, BaseException):
                raise fault

    async def _load(self, paths: Iterable[str]) -> None:
        """Serve files for the first time, with all of their regular expressions compiled."""
        self._first = Delta()
        self.update(paths)
        await self._compiler.settle(None)
        self._apply({})
        first, self._first = self._first, None
        self._carry_out(first, {})

    def update(self, paths: Iterable[str], *, again: bool = False) -> None:
        """Read changed files, translate them and update the data planes."""
        self._apply(self._read(paths, again=again))

    def _read(self, paths: Iterable[str], *, again: bool = False) -> Mapping[Key, Object | None]:
        changes = self._files.update(paths, again=again)
        self.rejections += len({complaint.file for complaint in changes.complaints})
        for complaint in changes.complaints:
            log.error("%s", complaint)
        for complaint in changes.ignored:
            log.warning("%s", complaint)
        return changes.objects

    def _apply(self, objects: Mapping[Key, Object | None]) -> None:
        """Translate changed objects, and those whose regular expressions were compiled; update the data planes."""
        if not (changed := {**objects, **self._compiler.drain()}):
            return
        delta = self._translator.update({**changed, **self._served})
        self._compiler.update(delta.uncompiled, delta.released)
        self._served = served_after(delta)
        slices = self._changed_slices(objects)
        of_kind = {key: obj for key, obj in objects.items() if key.kind == VarnishCacheInvalidation.kind}
        self._changed_invalidations.update(of_kind)
        if self._first is None:
            self._carry_out(delta, slices)
        else:
            self._first = _since_the_start(self._first, delta)

    def _carry_out(self, delta: Delta, slices: Mapping[Key, EndpointSlice | None]) -> None:
        self._update_planes(delta, slices)
        self._log_statuses(delta.statuses)
        changed, self._changed_invalidations = self._changed_invalidations, {}
        self.invalidations.update(changed)
        self.invalidations.on_gateways(delta.gateways.keys())

    def _on_compiled(self) -> None:
        if self._first is not None:
            return  # _load waits for the rest
        try:
            self._apply({})
        except Exception as bug:  # noqa: BLE001 - serve() raises it
            if not self._crash.done():
                self._crash.set_exception(bug)

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

    def _update_planes(self, delta: Delta, slices: Mapping[Key, EndpointSlice | None]) -> None:
        unclassed = self._files.objects.unclassed
        for key, changed in delta.gateways.items():
            if changed is None and key in unclassed and key in self.planes:
                self._freeze(key)
            elif changed is None:
                self._remove(key)
            elif key in self.planes:
                self.planes[key].update(changed, slices, is_whole=key in self._frozen)
                self._frozen.discard(key)
            else:
                self.planes[key] = self._start(key)
                self.planes[key].update(changed, self._slices)
        for key in self._frozen - unclassed:  # deleted, or of another controller's class
            self._remove(key)
        if slices:
            for key in self.planes.keys() - delta.gateways.keys():
                self.planes[key].update(None, slices)
        if delta.gateways:
            self._release_ports()

    def _release_ports(self) -> None:
        """Let each Gateway release ports that it has no listener on any more and that another one needs."""
        needed = {port for plane in self.planes.values() for port in plane.ports}
        for plane in self.planes.values():
            plane.need(plane.former_ports & needed)

    def _start(self, key: Key) -> Plane:
        work_dir, after = self._work_dir / directory_name(key), self._closing.get(key)
        plane = Plane(key, work_dir, self._on_report, after=after, tokens=self._tokens)
        plane.task.add_done_callback(self._on_done)
        return plane

    def _on_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (fault := task.exception()) and not self._crash.done():
            self._crash.set_exception(fault)

    def _freeze(self, key: Key) -> None:
        """Leave a Gateway serving: its class is misspelt, and a typo must not stop traffic."""
        self._frozen.add(key)
        log.error("%s serves as before, and none of its routes change, until its class is corrected", key)

    def _remove(self, key: Key) -> None:
        self._frozen.discard(key)
        if (plane := self.planes.pop(key, None)) is not None:
            log.info("%s was deleted; stopping its data plane", key)
            closing = asyncio.create_task(_drain_and_close(plane, self._closing.get(key)))
            self._closing[key] = closing
            closing.add_done_callback(lambda _: self._forget(key, closing))
            closing.add_done_callback(self._on_done)
        self._programmed.pop(key, None)

    def _forget(self, key: Key, closed: asyncio.Task[None]) -> None:
        if self._closing.get(key) is closed:
            del self._closing[key]

    # -- statuses ------------------------------------------------------------------------

    def _on_invalidations(self, statuses: Mapping[Key, InvalidationStatus | None]) -> None:
        """Log how far invalidations have come outside of the context of a Gateway."""
        self._context.copy().run(self._log_statuses, statuses)

    def _on_report(self, key: Key, served: bool, message: str, closed: Mapping[str, str]) -> None:
        """Handle a data plane's report outside its own logging context."""
        report = PlaneReport(served, message, closed)
        asyncio.get_running_loop().call_soon(self._set_programmed, key, report, context=self._context)

    def _set_programmed(self, key: Key, report: PlaneReport) -> None:
        """Record whether a data plane serves its desired state, and log the statuses that this changes."""
        if key not in self.planes:
            return
        self._programmed[key] = report
        affected = (key, *self._translator.listener_sets.of(key))
        self._log_statuses({one: self._statuses[one] for one in affected if one in self._statuses})

    def _log_statuses(self, statuses: Mapping[Key, Status | None]) -> None:
        """Log the statuses that differ from what was logged before."""
        accepted: dict[Key, str] = {}
        for key, status in statuses.items():
            if status is None:
                self._logged.pop(key, None)
                self._faults.pop(key, None)
                self._statuses.pop(key, None)
                continue
            complete = self._with_programmed(key, status)
            line = describe(key, complete)
            if isinstance(status, InvalidationStatus) and faults(status):
                line = f"{self._files.objects.place(key)}: {line}"
            if self._logged.get(key) == line:
                continue
            self._logged[key] = line
            if faults(complete):
                self._faults[key] = line
                log.warning("%s", line)
            else:
                self._faults.pop(key, None)
                accepted[key] = line
        self._log_accepted(accepted)

    def _with_programmed(self, key: Key, status: Status) -> Status:
        """Return the status with what its data plane reported."""
        if not isinstance(status, GatewayStatus | ListenerSetStatus):
            return status
        self._statuses[key] = status
        gateway = self._translator.listener_sets.gateway_of(key)
        if gateway not in self._programmed:
            return status
        return with_report(key, status, self._programmed[gateway], self.planes[gateway].listeners)

    @staticmethod
    def _log_accepted(accepted: Mapping[Key, str]) -> None:
        kinds = Counter(key.kind for key in accepted)
        for key, line in accepted.items():
            if kinds[key.kind] <= MANY:
                log.info("%s", line)
        for kind, count in kinds.items():
            if count > MANY:
                log.info("%d objects of the kind %s are accepted", count, kind)


def directory_name(key: Key) -> str:
    """Return a name that is unique to the Gateway and short enough for the Unix sockets inside it."""
    # The name of a namespace has no dot, so this is unambiguous.
    whole = f"{key.namespace}.{key.name}"
    return whole if len(whole) <= LONGEST_NAME else f"{whole[: LONGEST_NAME - 18]}..{content_hash(whole.encode())}"


def _since_the_start(before: Delta, delta: Delta) -> Delta:
    """Return both as one. A Gateway that was deleted by now has no data plane yet."""
    there = {key: gateway for key, gateway in before.gateways.items() if gateway is not None}
    merged = structs.replace(before, gateways=there).merge(delta)
    assert merged is not None  # noqa: S101 - no Gateway is deleted before the later one
    return merged


async def _drain_and_close(plane: Plane, former: asyncio.Task[None] | None) -> None:
    """Close a plane; return when a former one of its Gateway is closed too, because they share a directory."""
    try:
        await plane.drain()
    finally:
        await plane.close()
    if former is not None:
        await asyncio.wait({former})
