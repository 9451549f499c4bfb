"""Elect one leader among several operators, by a Lease.

In:   a Lease's name and who we are.
Out:  ``holds()``: whether this operator leads now. It turns False by the clock alone, without a response
      from the API server, before another operator may acquire the Lease.
Promise: at most one of all operators that share the Lease leads, as long as their clocks run at
about the same speed; the time of day does not matter.
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
    """One candidate. It needs a client of its own: its writes must wait neither for others nor for the Lease."""

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
        self._observed: _Lease | None = None
        self._observed_at = 0.0
        self._leading, self._following = asyncio.Event(), asyncio.Event()
        self._following.set()
        self._alarm: asyncio.TimerHandle | None = None

    def holds(self) -> bool:
        """Return whether this operator leads at this moment. No write may start when it is False."""
        return _now() < self._until

    async def wait(self, leading: bool) -> None:
        """Wait until this operator leads, or until it does not."""
        await (self._leading if leading else self._following).wait()

    async def run(self) -> None:
        """Campaign until cancelled, then release the Lease."""
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
            log.log(
                level,
                "Lease %s/%s: %s",
                self._namespace,
                self._name,
                str(error) or "the API server did not respond in time",
            )

    async def _renew_or_acquire(self) -> None:
        if self._observed is None or not self.holds():
            await self._read()
        if self._observed is None:
            await self._create()
        elif self._may_acquire(self._observed.spec):
            try:
                await self._acquire(self._observed)
            except (errors.Conflict, errors.NotFound):
                await self._read()

    async def _read(self) -> None:
        """Read the current Lease."""
        try:
            self._observe(await self._client.get(_LEASE, self._name, namespace=self._namespace))
        except errors.NotFound:
            self._observed = None
            self._follow_holder()

    def _observe(self, answer: bytes) -> None:
        try:
            lease = msgspec.json.decode(answer, type=_Lease)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise errors.ApiError(f"the answer is not a Lease: {error}") from error
        if self._observed is None or lease.spec != self._observed.spec:
            self._observed_at = _now()
        self._observed = lease
        self._follow_holder()

    def _follow_holder(self) -> None:
        """Stop leading at once when another operator holds the Lease, or when it was deleted."""
        holder = self._observed.spec.holder_identity if self._observed else None
        if holder != self.leader and holder:
            log.info("Lease %s/%s: %s leads", self._namespace, self._name, holder)
        self.leader = holder
        if holder != self._identity and self.holds():
            self._hold_until(float("-inf"))

    def _may_acquire(self, spec: _Spec) -> bool:
        """Whether the Lease is ours, free or expired. Our clock counts from when we first observed it."""
        if spec.holder_identity in {self._identity, "", None}:
            return True
        lasts = spec.lease_duration_seconds or self._duration
        return _now() - self._observed_at > lasts

    async def _create(self) -> None:
        document = {
            "apiVersion": _LEASE.api_version,
            "kind": _LEASE.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._desired(None),
        }
        began = _now()
        try:
            answer = await self._client.create(document, manager=MANAGER)
        except errors.Conflict:
            await self._read()
            return
        self._won(began, answer)

    async def _acquire(self, lease: _Lease) -> None:
        patch = {
            "metadata": {"resourceVersion": lease.metadata.resource_version},
            "spec": self._desired(lease.spec),
        }
        began = _now()
        self._won(began, await self._patch(patch))

    async def _patch(self, patch: dict[str, Any]) -> bytes:
        return await self._client.patch(_LEASE, self._name, patch, namespace=self._namespace, manager=MANAGER)

    def _desired(self, before: _Spec | None) -> dict[str, Any]:
        now = _timestamp()
        desired: dict[str, Any] = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": math.ceil(self._duration),
            "renewTime": now,
        }
        if before is None:
            desired |= {"acquireTime": now, "leaseTransitions": 0}
        elif before.holder_identity != self._identity:
            desired |= {"acquireTime": now, "leaseTransitions": (before.lease_transitions or 0) + 1}
        return desired

    def _won(self, began: float, answer: bytes) -> None:
        self._hold_until(began + self._renew_deadline)
        self._observe(answer)

    async def _release(self) -> None:
        """Let another operator acquire the Lease at once, if it is ours."""
        if self.leader != self._identity:
            return
        await self._read()  # a renewal may have been in flight when this task was cancelled
        if self._observed is not None and self.leader == self._identity:
            spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _timestamp()}
            await self._patch({"metadata": {"resourceVersion": self._observed.metadata.resource_version}, "spec": spec})

    # -- waiting --------------------------------------------------------------------------------

    def _hold_until(self, until: float) -> None:
        self._until = until
        self._notify()

    def _notify(self) -> None:
        """Wake waiting tasks, now and when the Lease expires."""
        if self._alarm is not None:
            self._alarm.cancel()
        held = self.holds()
        if held != self._leading.is_set():
            log.info(
                "Lease %s/%s: this operator %s", self._namespace, self._name, "leads" if held else "stopped leading"
            )
        if held:
            self._following.clear()
            self._leading.set()
            delay = max(0.0, self._until - _now())
            self._alarm = asyncio.get_running_loop().call_later(delay, self._notify)
        else:
            self._leading.clear()
            self._following.set()


def _now() -> float:
    """Seconds that also pass while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
