"""Real operators on the simulated API server.

In:   a Store, and by chance how long things take.
Out:  operators, each with its own view of the store; who of two leads; what pods answer.
Everything is the operator's own code but its client, its election, what it asks of pods, and that it serves no pages.
"""

import asyncio
import random
from base64 import b64decode
from collections.abc import Iterable, Sequence

import msgspec

from support.simulation.client import PROMPT, Delays, SimulatedClient
from support.simulation.store import Store
from support.simulation.virtualtime import now
from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir import wire
from varnish_gateway.operator import run
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.plan.jobs import Job
from varnish_gateway.operator.settings import OperatorSettings
from varnish_gateway.operator.status.readiness import PodReport

REST_SECONDS, TIMEOUT_SECONDS = 75, 900
"""How long nothing happens before the simulation is at rest, and the timeout for that.

A watch may wait a minute before it tries again, and pods that serve are probed every 30 s.
"""
ANSWER_SECONDS = 0.3
SILENT, FAILING = "silent", "failing"
"""A pod with that in its name does not answer, or has a problem."""


class Turn:
    """Leadership that is given and taken from outside."""

    def __init__(self, *, leads: bool = True) -> None:
        self._leads = leads
        self._changed = asyncio.Event()

    def give(self, *, leads: bool) -> None:
        self._leads = leads
        self._changed.set()
        self._changed = asyncio.Event()

    def holds(self) -> bool:
        return self._leads

    async def wait(self, leading: bool) -> None:
        while self._leads != leading:
            await self._changed.wait()

    async def run(self) -> None:
        await asyncio.Event().wait()


class Pods:
    """Chaperones: each serves what is stored for its Gateway at the moment, or is silent."""

    def __init__(self, store: Store, chance: random.Random, seconds: float) -> None:
        self._store = store
        self._chance = chance
        self._seconds = seconds

    async def ask(self, pods: Iterable[GatewayPod]) -> dict[str, PodReport | str]:
        asked = list(pods)
        await asyncio.sleep(self._chance.random() * self._seconds)
        return {pod.name: self._answer(pod) for pod in asked}

    def _answer(self, pod: GatewayPod) -> PodReport | str:
        namespace, name = pod.gateway.namespace, pod.gateway.name
        stored = self._store.documents.get(Key("ConfigMap", namespace, names.config_map(name)), {})
        data = stored.get("data", {})
        if SILENT in pod.name or pod.name in self._store.faults.lost or names.ROUTING not in data:
            return "no answer"
        secret = self._store.documents.get(Key("Secret", namespace, names.secret(name)), {}).get("data", {})
        routing = msgspec.json.decode(data[names.ROUTING], type=wire.Routing)
        return PodReport(
            vcl=content_hash(data[names.MAIN_VCL].encode()) if names.MAIN_VCL in data else None,
            tls=content_hash(b64decode(secret[names.TLS])) if names.TLS in secret else None,
            generation=stored["metadata"].get("annotations", {}).get(names.GENERATION),
            sockets=tuple(listener.socket for listener in routing.listeners),
            up_to_date=True,
            problems=("there is no space left",) if FAILING in pod.name else (),
        )


class SimulatedOperator:
    """One operator, running: all of ``run.Operator`` but its servers, its election and its Events."""

    def __init__(
        self,
        store: Store,
        chance: random.Random | None = None,
        *,
        class_name: str = "varnish",
        leads: bool = True,
        delays: Delays = PROMPT,
        image: str = "gateway:1",
    ) -> None:
        chance = chance or random.Random(1)
        self.image = image
        self.turn = Turn(leads=leads)
        self.reading = SimulatedClient(store, chance, delays)
        self.writing = SimulatedClient(store, chance, delays, self.turn.holds)
        pods = Pods(store, chance, min(ANSWER_SECONDS, 10 * delays.request))
        dependencies = run.Dependencies(self.reading, self.writing, pods, self.turn)  # type: ignore[arg-type]
        self._operator = run.Operator(OperatorSettings(class_name=class_name, image=image), dependencies)
        self.name = f"operator of {class_name}"
        self._task = asyncio.create_task(self._operator.control())

    async def stop(self) -> None:
        """End it as a crash does."""
        self._task.cancel()
        await asyncio.wait({self._task})

    @property
    def unfinished(self) -> list[Job]:
        """What is left to do, now or later; probes never end."""
        return [job for job in self._operator.queue.unfinished if job.action != "probe"]

    @property
    def is_idle(self) -> bool:
        return self._operator.is_synced and not self.unfinished

    @property
    def bugs(self) -> list[str]:
        """Errors that only a bug of the operator explains."""
        crash = [repr(self._task.exception())] if self._task.done() and not self._task.cancelled() else []
        return crash + [name for name in self._operator.workers.failures if not hasattr(errors, name)]


async def at_rest(store: Store, operators: Sequence[SimulatedOperator]) -> bool:
    """Wait until all operators are idle and nothing has happened for a while; return whether that came."""
    deadline, quiet = now() + TIMEOUT_SECONDS, 0
    version = store.version
    while quiet < REST_SECONDS and now() < deadline:
        await asyncio.sleep(1)
        quiet = quiet + 1 if store.version == version and all(one.is_idle for one in operators) else 0
        version = store.version
    return quiet >= REST_SECONDS
