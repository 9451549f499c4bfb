"""One pass: make varnishd and ghost serve what is desired now.

In:   the desired configuration, and the collaborators that apply it.
Out:  an Outcome: what could not be done. The last good configuration serves before anything new is tried.

A fault (a process, a port, a connection) ends the pass and is retried soon. What varnishd or ghost
rejects is quarantined; the rest of the pass goes on.
"""

import time

from varnish_gateway import errors
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.change import Outcome
from varnish_gateway.dataplane.collaborators import Collaborators
from varnish_gateway.dataplane.varnish.vcl import KEPT_VCLS, digest

Problem = errors.GatewayError | None


class Passes:
    """Runs passes one after the other; ``outcome`` is that of the last one."""

    def __init__(self, collaborators: Collaborators) -> None:
        self._bus = collaborators.bus
        self._desired = collaborators.desired
        self._supervisor = collaborators.supervisor
        self._vcl = collaborators.vcl
        self._ghost = collaborators.ghost
        self._terminator = collaborators.terminator
        self._retry = collaborators.retry
        self._begin_drain = collaborators.begin_drain
        self._launches = 0  # of varnishd, that the VCL loader knows of
        self.outcome = Outcome()

    async def run(self) -> Outcome:
        """Do one pass and return its outcome."""
        self.outcome = await self._pass()
        return self.outcome

    def close(self) -> None:
        """Cancel all timers."""
        self._retry.cancel()
        self._vcl.close()
        self._ghost.close()

    async def _pass(self) -> Outcome:
        try:
            sockets = await self._ensure_varnishd()
            problems = [sockets, *await self._ensure_configuration()]
            if self._vcl.active is not None:
                await self._ensure_worker()
        except (errors.GatewayError, OSError) as fault:
            self._retry.later(fault)
            return Outcome((fault,))
        if self._vcl.active is None and self._vcl.last_good is not None:
            self._retry.later(errors.ChildExited("varnishd rejects every VCL, also the last good one"))
        elif sockets is None:
            self._retry.reset()
        return Outcome(tuple(problem for problem in problems if problem is not None))

    # -- varnishd and its worker -------------------------------------------------------

    async def _ensure_varnishd(self) -> Problem:
        """Ensure a varnishd with the desired sockets and arguments that serves the last good configuration.

        Return why it still has the previous sockets or arguments.
        """
        standing = await self._supervisor.ensure(self._desired.sockets, self._desired.extra_args)
        if standing.problem is not None and standing.retry:
            self._retry.later(standing.problem)
        self._notice_launch()
        await self._supervisor.report_deaths()
        try:
            await self._serve_last_good()
        except errors.ChildExited as problem:
            if self._is_new_desired and not self._supervisor.may_go_back:
                return standing.problem  # the new configuration may work
            standing = await self._supervisor.go_back(problem)
            self._notice_launch()
            await self._serve_last_good()
        return standing.problem

    def _notice_launch(self) -> None:
        """Notify the VCL loader of a new varnishd, which holds no VCL."""
        if self._launches != self._supervisor.launches:
            self._launches = self._supervisor.launches
            self._vcl.forget()

    async def _serve_last_good(self) -> None:
        """Where no worker runs, start one with the last good configuration, if any; raise ChildExited if it fails."""
        if self._vcl.last_good is None or self._supervisor.child_running:
            return
        self._ghost.restore()
        self._vcl.release(self._vcl.last_good)
        try:
            await self._use(self._vcl.last_good)
        except errors.VclRejected as rejection:
            raise errors.ChildExited(f"varnishd rejects the last good VCL: {rejection}") from rejection
        await self._ensure_worker()

    @property
    def _is_new_desired(self) -> bool:
        """Whether the desired configuration differs from the last good one."""
        good = self._ghost.last_good
        return good is None or good.id != self._desired.bundle.id or self._vcl.last_good != self._desired.vcl

    async def _ensure_worker(self) -> None:
        """Ensure that a worker runs. The configuration that it runs with becomes the last good one."""
        if self._supervisor.child_running or not await self._supervisor.start_child():
            # The worker may have started before the last write.
            await self._ghost.ensure_read(self._supervisor.reload_port)
        self._vcl.accepted()
        self._ghost.accepted()
        self._terminator.open()
        if self._desired.is_draining:
            await self._begin_drain(self._supervisor.reload_port)  # the worker may be another than before

    async def _use(self, text: str) -> str | None:
        """Load and use a VCL; return its new name, None if it was in use already."""
        name = await self._vcl.ensure(text)
        if name is not None:
            # Without a worker no request is in progress, and a worker only starts if all loaded VCLs are sound.
            await self._vcl.discard_old(KEPT_VCLS if self._supervisor.child_running else 0)
        return name

    # -- configuration and VCL ---------------------------------------------------------

    async def _ensure_configuration(self) -> tuple[Problem, Problem]:
        """Put the desired bundle and VCL in force; return why ghost and varnishd reject them."""
        before = self._vcl.active
        ghost, vcl = await self._ensure_ghost(), await self._ensure_vcl()
        if ghost is not None and self._vcl.active != before:
            self._ghost.release()  # the previous VCL may have been the cause
            ghost = await self._ensure_ghost()
        return ghost, vcl

    async def _ensure_ghost(self) -> Problem:
        """Put the desired bundle in force; without a worker, only write it to disk."""
        bundle = self._desired.bundle
        started = time.monotonic()
        if not self._supervisor.child_running:
            if self._ghost.write(bundle):
                self._vcl.release()
            return None
        try:
            if await self._ghost.install(bundle, self._supervisor.reload_port):
                self._bus.publish(events.Reloaded(id=bundle.id, seconds=time.monotonic() - started))
        except errors.ReloadRejected as rejection:
            self._publish_once(rejection, events.ReloadFailed(id=bundle.id, reason=str(rejection)))
            return rejection
        except ConnectionError:
            if await self._supervisor.worker_died():
                self._ghost.blame(bundle)
            raise
        return None

    async def _ensure_vcl(self) -> Problem:
        text, started = self._desired.vcl, time.monotonic()
        if text is None:
            return None
        try:
            name = await self._use(text)
        except errors.VclRejected as rejection:
            serving = self._supervisor.child_running
            self._publish_once(rejection, events.VclFailed(reason=str(rejection), serving=serving))
            return rejection
        if name is not None:
            self._bus.publish(events.VclLoaded(name=name, digest=digest(text), seconds=time.monotonic() - started))
        return None

    def _publish_once(self, rejection: errors.GatewayError, event: events.Event) -> None:
        """Publish an event unless the last pass ended with the same rejection."""
        if str(rejection) not in {str(problem) for problem in self.outcome.problems}:
            self._bus.publish(event)
