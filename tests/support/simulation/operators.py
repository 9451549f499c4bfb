"""Real operators on the simulated API server.

In:   a Store, and by chance how long things take.
Out:  operators, each with its own view of the store; who of two leads; what pods answer.
Everything is the operator's own code but its client, its election, what it asks of pods, and that it serves no pages.
"""

import asyncio
import json
import random
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from support import previous
from support.simulation.client import PROMPT, Delays, SimulatedClient
from support.simulation.fields import Document
from support.simulation.store import Store
from support.simulation.virtualtime import now
from varnish_gateway import api, errors
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir.capabilities import ALL
from varnish_gateway.operator import run
from varnish_gateway.operator.address.gateways import AddressedGateways
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.plan.jobs import Job
from varnish_gateway.operator.settings import OperatorSettings
from varnish_gateway.operator.status.answers import InvalidationAnswer
from varnish_gateway.operator.status.readiness import PodReport
from varnish_gateway.runtime.match_compiler import CompiledTurn, Run, compile_turn

REST_SECONDS, TIMEOUT_SECONDS = 75, 900
"""How long nothing happens before the simulation is at rest, and the timeout for that.

A watch may wait a minute before it tries again, and pods that serve are probed every 30 s.
"""
ANSWER_SECONDS = 0.3
COMPILE_SECONDS = 3.0
"""What regular expressions of one route take at most, where they take long."""
SILENT, FAILING, OLD = "silent", "failing", "old"
"""A pod with that in its name does not answer, has a problem, or is of the previous version."""


async def at_once(routes: Sequence[api.HTTPRoute]) -> CompiledTurn:
    """Compile without a thread, for which virtual time would not wait."""
    return compile_turn(routes)


def slowly(chance: random.Random) -> Run:
    """Return what compiles one route at a time, for a while by chance: meanwhile others change."""

    async def compile_slowly(routes: Sequence[api.Object]) -> CompiledTurn:
        await asyncio.sleep(chance.random() ** 3 * COMPILE_SECONDS)
        return CompiledTurn(compile_turn(routes[:1]).objects, 1.0)

    return compile_slowly


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

    async def invalidate(
        self, pods: Sequence[GatewayPod], _content: bytes, token: str
    ) -> dict[str, InvalidationAnswer]:
        await asyncio.sleep(self._chance.random() * self._seconds)
        return {pod.name: self._invalidated(pod, token) for pod in pods}

    async def invalidate_one(self, pod: GatewayPod, content: bytes, token: str) -> InvalidationAnswer:
        return (await self.invalidate([pod], content, token))[pod.name]

    def _invalidated(self, pod: GatewayPod, token: str) -> InvalidationAnswer:
        """Confirm, for the token that is stored for the Gateway at the moment."""
        secret = self._store.documents.get(Key("Secret", pod.gateway.namespace, names.secret(pod.gateway.name)), {})
        known = b64decode(secret.get("data", {}).get(names.TOKEN, "")).decode()
        if SILENT in pod.name or pod.name in self._store.faults.lost or known != token:
            return InvalidationAnswer(None, "no answer")
        return InvalidationAnswer((1,))

    def _answer(self, pod: GatewayPod) -> PodReport | str:
        namespace, name = pod.gateway.namespace, pod.gateway.name
        stored = self._store.documents.get(Key("ConfigMap", namespace, names.config_map(name)), {})
        data = stored.get("data", {})
        if SILENT in pod.name or pod.name in self._store.faults.lost or names.ROUTING not in data:
            return "no answer"
        secret = self._store.documents.get(Key("Secret", namespace, names.secret(name)), {}).get("data", {})
        problems = ["there is no space left"] if FAILING in pod.name else []
        problems += self._unreadable(pod.gateway) if OLD in pod.name else []
        return PodReport(
            vcl=content_hash(data[names.MAIN_VCL].encode()) if names.MAIN_VCL in data else None,
            tls=content_hash(b64decode(secret[names.TLS])) if names.TLS in secret else None,
            generation=stored["metadata"].get("annotations", {}).get(names.GENERATION),
            sockets=self._sockets(pod.gateway) + (() if OLD in pod.name else _opened_later(data)),
            up_to_date=True,
            problems=tuple(problems),
            capabilities=() if OLD in pod.name else tuple(ALL),
        )

    def _unreadable(self, gateway: Key) -> list[str]:
        """Return why a pod of the previous version can't read the shards of a Gateway."""
        first = names.config_map(gateway.name)
        texts = [
            document["data"][names.ROUTING]
            for key, document in self._store.documents.items()
            if key.kind == "ConfigMap" and key.namespace == gateway.namespace and key.name.startswith(first)
        ]
        return [why for text in texts if (why := _why_unreadable(text))]

    def _sockets(self, gateway: Key) -> tuple[str, ...]:
        """Return the sockets of a Gateway's Deployment: its pods are replaced in no time."""
        workloads = (names.workload(gateway.name), names.former_workload(gateway.name))
        found = (self._store.documents.get(Key("Deployment", gateway.namespace, name)) for name in workloads)
        return next((listening(deployment) for deployment in found if deployment is not None), ())


def _opened_later(data: Mapping[str, str]) -> tuple[str, ...]:
    """Return the sockets of listeners, which a pod opens itself."""
    return tuple(one["socket"] for one in json.loads(data[names.ROUTING]).get("listeners", ()))


def _why_unreadable(text: str) -> str:
    try:
        msgspec.json.decode(text, type=previous.wire().Routing)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def listening(deployment: Document) -> tuple[str, ...]:
    """Return the sockets that varnishd opens in the pods of a Deployment."""
    variables = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    return tuple(next(one["value"] for one in variables if one["name"] == "VARNISH_LISTEN").split(";"))


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
        compiling: Run = at_once,
    ) -> None:
        chance = chance or random.Random(1)
        self.image = image
        self.turn = Turn(leads=leads)
        self.reading = SimulatedClient(store, chance, delays)
        self.writing = SimulatedClient(store, chance, delays, self.turn.holds)
        pods = Pods(store, chance, min(ANSWER_SECONDS, 10 * delays.request))
        dependencies = run.Dependencies(self.reading, self.writing, pods, self.turn, compiling)  # type: ignore[arg-type]
        self._operator = run.Operator(OperatorSettings(class_name=class_name, image=image), dependencies)
        self.name = f"operator of {class_name}"
        self.pods = pods
        self._task = asyncio.create_task(self._operator.control())

    async def stop(self) -> None:
        """End it as a crash does."""
        self._task.cancel()
        await asyncio.wait({self._task})

    @property
    def is_synced(self) -> bool:
        return self._operator.is_synced

    @property
    def addressed(self) -> AddressedGateways:
        """What it knows of the Gateways that clients invalidate."""
        return self._operator.addressed

    @property
    def unfinished(self) -> list[Job]:
        """What is left to do, now or later; probes never end, and invalidations wait for their ttl."""
        return [job for job in self._operator.queue.unfinished if job.action not in ("probe", "invalidate")]

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
