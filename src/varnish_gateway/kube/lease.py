"""Elect one leader among several operators, by a Lease.

In:   a Lease's name and who we are.
Out:  ``holds()``: whether we lead now. It turns False by the clock alone, without any answer from
      the API server, before anybody else may take the lease over.
Promise: at most one of all that share the Lease leads, as long as clocks run at about the same
speed; what time of day they show does not matter.
"""

import asyncio
import contextlib
import logging
import math
import time
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct, field

from varnish_gateway import errors
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.limits import spread
from varnish_gateway.kube.resources import RESOURCES

log = logging.getLogger(__name__)

MANAGER = "varnish-gateway-election"
_RELEASE_SECONDS = 2.0
_LEASE = RESOURCES["Lease"]


class _Metadata(Struct, rename="camel", frozen=True):
    resource_version: str = ""


class _Spec(Struct, rename="camel", frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = field(default_factory=_Spec)


class Election:
    """One candidate. Give it a client of its own: writes must not wait behind others, nor for the lease."""

    def __init__(  # noqa: PLR0913 - settings, by name
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry: float = 2.0,
    ) -> None:
        if not 0 < retry < renew_deadline < duration:
            raise ValueError("a lease needs retry < renew_deadline < duration")
        self.leader: str | None = None
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._duration = duration
        self._renew_deadline = renew_deadline
        self._retry = retry
        self._until = float("-inf")
        self._seen: _Lease | None = None
        self._seen_at = 0.0
        self._leading, self._following = asyncio.Event(), asyncio.Event()
        self._following.set()
        self._alarm: asyncio.TimerHandle | None = None

    def holds(self) -> bool:
        """Tell whether we lead at this moment. No write may begin when it is False."""
        return _now() < self._until

    async def wait(self, leading: bool) -> None:
        """Wait until we lead, or until we don't."""
        await (self._leading if leading else self._following).wait()

    async def run(self) -> None:
        """Take part until cancelled; the lease is given back on the way out."""
        try:
            while True:
                await self._turn()
                await asyncio.sleep(spread(self._retry, 0.1))
        finally:
            self._hold_until(float("-inf"))
            with contextlib.suppress(errors.KubernetesError, TimeoutError):
                async with asyncio.timeout(_RELEASE_SECONDS):
                    await self._release()

    # -- one turn ------------------------------------------------------------------------------

    async def _turn(self) -> None:
        """Renew or try to acquire, once."""
        try:
            async with asyncio.timeout(self._renew_deadline / 2):
                await self._renew_or_acquire()
        except (errors.KubernetesError, TimeoutError) as error:
            level = logging.WARNING if self.holds() else logging.INFO
            log.log(level, "Lease %s/%s: %s", self._namespace, self._name, str(error) or "no answer in time")

    async def _renew_or_acquire(self) -> None:
        if self._seen is None or not self.holds():
            await self._look()
        if self._seen is None:
            await self._create()
        elif self._may_take(self._seen.spec):
            try:
                await self._take(self._seen)
            except (errors.Conflict, errors.NotFound):
                await self._look()

    async def _look(self) -> None:
        """Read the lease as it is now."""
        try:
            self._note(await self._client.get(_LEASE, self._name, namespace=self._namespace))
        except errors.NotFound:
            self._seen = None
            self._judge()

    def _note(self, answer: bytes) -> None:
        lease = msgspec.json.decode(answer, type=_Lease)
        if self._seen is None or lease.spec != self._seen.spec:
            self._seen_at = _now()
        self._seen = lease
        self._judge()

    def _judge(self) -> None:
        """Stop leading at once when the lease is somebody else's, or gone."""
        holder = self._seen.spec.holder_identity if self._seen else None
        if holder != self.leader and holder:
            log.info("Lease %s/%s: %s leads", self._namespace, self._name, holder)
        self.leader = holder
        if holder != self._identity and self.holds():
            self._hold_until(float("-inf"))

    def _may_take(self, spec: _Spec) -> bool:
        """Ours, nobody's, or not renewed for as long as its holder asked for; by our clock, since we first saw it."""
        if spec.holder_identity in {self._identity, "", None}:
            return True
        lasts = spec.lease_duration_seconds or self._duration
        return _now() - self._seen_at > lasts

    async def _create(self) -> None:
        document = {
            "apiVersion": _LEASE.api_version,
            "kind": _LEASE.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._wanted(None),
        }
        began = _now()
        try:
            answer = await self._client.create(document, manager=MANAGER)
        except errors.Conflict:
            await self._look()
            return
        self._won(began, answer)

    async def _take(self, lease: _Lease) -> None:
        patch = {
            "metadata": {"resourceVersion": lease.metadata.resource_version},
            "spec": self._wanted(lease.spec),
        }
        began = _now()
        self._won(began, await self._patch(patch))

    async def _patch(self, patch: dict[str, Any]) -> bytes:
        return await self._client.patch(_LEASE, self._name, patch, namespace=self._namespace, manager=MANAGER)

    def _wanted(self, before: _Spec | None) -> dict[str, Any]:
        now = _timestamp()
        wanted: dict[str, Any] = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": math.ceil(self._duration),
            "renewTime": now,
        }
        if before is None:
            wanted |= {"acquireTime": now, "leaseTransitions": 0}
        elif before.holder_identity != self._identity:
            wanted |= {"acquireTime": now, "leaseTransitions": (before.lease_transitions or 0) + 1}
        return wanted

    def _won(self, began: float, answer: bytes) -> None:
        self._hold_until(began + self._renew_deadline)
        self._note(answer)

    async def _release(self) -> None:
        """Let others take the lease at once, if it is ours."""
        if self.leader != self._identity:
            return
        await self._look()  # a renewal may have been on its way when we were cancelled
        if self._seen is not None and self.leader == self._identity:
            spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _timestamp()}
            await self._patch({"metadata": {"resourceVersion": self._seen.metadata.resource_version}, "spec": spec})

    # -- who waits -----------------------------------------------------------------------------

    def _hold_until(self, until: float) -> None:
        self._until = until
        self._tell()

    def _tell(self) -> None:
        """Wake those who wait, now and when the time is over."""
        if self._alarm is not None:
            self._alarm.cancel()
        held = self.holds()
        if held != self._leading.is_set():
            log.info("Lease %s/%s: we %s", self._namespace, self._name, "lead" if held else "don't lead any more")
        if held:
            self._following.clear()
            self._leading.set()
            delay = max(0.0, self._until - _now())
            self._alarm = asyncio.get_running_loop().call_later(delay, self._tell)
        else:
            self._leading.clear()
            self._following.set()


def _now() -> float:
    """Seconds that also pass while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
