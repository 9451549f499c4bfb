"""Carry out one round of an invalidation: send it to the pods that have not confirmed it yet.

In:   the round that planning asks for.
Out:  the answers of the pods, as a value; and the deletion of an object whose ttl has passed.
"""

import asyncio
import time
from collections import Counter
from weakref import WeakValueDictionary

from varnish_gateway.api import Key
from varnish_gateway.operator.execute.writer import Writer
from varnish_gateway.operator.observe.state import ObservedState
from varnish_gateway.operator.plan.invalidation.invalidations import AT_ONCE, Invalidations
from varnish_gateway.operator.plan.invalidation.progress import RoundReport
from varnish_gateway.operator.plan.results import JobResult
from varnish_gateway.operator.status.answers import Answers
from varnish_gateway.operator.status.chaperones import Chaperones
from varnish_gateway.translate.invalidation.request import PodRequest


class InvalidationExecutor:
    """``counts`` are the answers of pods by result: confirmed, rejected or unanswered."""

    def __init__(self, writer: Writer, observed: ObservedState, desired: Invalidations, chaperones: Chaperones) -> None:
        self._writer = writer
        self._observed = observed
        self._desired = desired
        self._chaperones = chaperones
        self._of_namespace: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self.counts: Counter[str] = Counter()

    async def run(self, key: Key, result: JobResult) -> None:
        """Send what pods have to carry out yet, or delete the object; a few of a namespace at a time."""
        at_once = self._of_namespace.setdefault(key.namespace, asyncio.Semaphore(AT_ONCE))
        async with at_once:
            if (expiry := self._desired.expiry(key)) is not None and expiry <= time.time():
                await self._delete(key)
            else:
                await self._send(key, result)

    async def _send(self, key: Key, result: JobResult) -> None:
        sent = self._desired.round(key)
        if sent is None:
            return
        answers: Answers = {}
        if isinstance(sent.request, PodRequest) and sent.pods:
            answers = await self._chaperones.invalidate(sent.pods, sent.request.content, sent.token)
            self.counts.update(answer.outcome for answer in answers.values())
        result.round = RoundReport(sent, answers, time.time())

    async def _delete(self, key: Key) -> None:
        observed = self._observed.inputs.get(key)
        if observed is not None and not observed.is_deleting:
            await self._writer.delete(key, observed.obj.metadata.uid, observed.version)
