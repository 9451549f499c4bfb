"""Send one invalidation to every pod of a Gateway until each of them is accounted for.

In:   the pods of the moment, again and again, and what asks one of them.
Out:  PodAccounts, and the objects that each target hit in all pods together.

Each pod has a task of its own, so that a silent one delays only itself. A pod that does not confirm is asked again
after growing delays, until it confirms, is gone, or time is up; a pod that joins is asked like the others.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection

from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.plan.invalidation.accounting import PodAccounts
from varnish_gateway.operator.status.answers import InvalidationAnswer

RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0)
LOOK_SECONDS = 0.2
"""How often a broadcast that waits for answers looks at the pods: one may be gone, or not run any more."""

NO_ANSWER = InvalidationAnswer(None, "no answer in time")

Ask = Callable[[GatewayPod], Awaitable[InvalidationAnswer]]


class Broadcast:
    """``targets`` is how many counts each pod answers with. ``objects`` are their sums over the pods so far."""

    def __init__(self, pods: Callable[[], Collection[GatewayPod]], ask: Ask, targets: int) -> None:
        self.accounts = PodAccounts(since=None)  # the clocks of nodes are not this one
        self.objects = [0] * targets
        self._pods = pods
        self._ask = ask
        self._asking: dict[str, asyncio.Task[None]] = {}

    @property
    def open(self) -> list[GatewayPod]:
        """The pods that are not accounted for."""
        return self.accounts.open(self._pods())

    async def run(self, seconds: float) -> None:
        """Return once every pod is accounted for, one rejects the invalidation, or time is up."""
        with contextlib.suppress(TimeoutError):
            try:
                async with asyncio.timeout(seconds):
                    await self._until_confirmed()
            finally:
                await self._stop(list(self._asking))

    async def _until_confirmed(self) -> None:
        while self.accounts.rejection is None:
            pods = self._pods()
            self.accounts.on_pods((pod.name for pod in pods), time.time())
            for pod in self.accounts.open(pods):
                self._account(pod, None)
            open_pods = {pod.name: pod for pod in self.accounts.open(pods)}
            await self._stop([name for name in self._asking if name not in open_pods])
            if not open_pods:
                return
            for name, pod in open_pods.items():
                if name not in self._asking:
                    self._account(pod, NO_ANSWER)  # it may be gone before it gives one, and is named then, too
                    self._asking[name] = asyncio.create_task(self._until_accounted_for(pod))
            done, _ = await asyncio.wait(
                self._asking.values(), timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()  # a bug of ours: raise it

    async def _until_accounted_for(self, pod: GatewayPod) -> None:
        attempt = 0
        while not self.accounts.has(pod) and self.accounts.rejection is None:
            if attempt:
                await asyncio.sleep(RETRY_SECONDS[min(attempt, len(RETRY_SECONDS)) - 1])
            self._account(pod, await self._ask(pod))
            attempt += 1

    def _account(self, pod: GatewayPod, answer: InvalidationAnswer | None) -> None:
        result = self.accounts.update(pod, len(self.objects), answer, time.time())
        if result is not None and result.reason == "Confirmed" and answer is not None and answer.objects is not None:
            self.objects = list(map(sum, zip(self.objects, answer.objects, strict=True)))

    async def _stop(self, names: list[str]) -> None:
        tasks = [self._asking.pop(name) for name in names]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
