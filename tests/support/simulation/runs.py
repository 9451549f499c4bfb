"""One run of the simulation: changes by chance, and then the question whether all of them were dealt with.

In:   a seed.
Out:  "" if the operators came to rest, met no bug of ours, left a cluster that the oracle finds right, and operators
      that begin then find nothing to write.
      Otherwise a report: the last changes, what was written, what was stored before and how that came about.
Promises: the same seed makes the same run, in every process with the same PYTHONHASHSEED: the operator goes through
sets, whose order depends on it. ``processes`` have it fixed.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import multiprocessing
import os
import random
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple
from unittest import mock

from support.simulation import virtualtime
from support.simulation.client import Delays, Write
from support.simulation.documents import OTHERS, OURS
from support.simulation.fields import Document
from support.simulation.operators import SimulatedOperator, at_rest, slowly
from support.simulation.oracle import Oracle
from support.simulation.store import Store
from support.simulation.turbulence import Turbulence
from varnish_gateway.api import Key
from varnish_gateway.emit import routing

STEPS = 25
PAUSES = (0.0, 0.01, 0.05, 0.2, 1.0, 1.0, 15.0)
"""How many times something is changed, and how long at most nothing is then, in seconds."""
PER_SHARD = 2
"""A few routes make many shards."""
CONTROLLER_SECONDS = 2.0
"""How long the garbage collector and the load balancer may take."""
SHOWN_CHANGES, SHOWN_WRITES, SHOWN_HISTORY, SHOWN_CHARACTERS = 15, 8, 6, 1000


class Run(NamedTuple):
    """What happened. ``before`` is what was stored when the first operators had come to rest."""

    store: Store
    log: list[str]
    problems: list[str]
    writes: list[Write]
    before: Mapping[Key, Document]


def failure_of(seed: int) -> str:
    """Make a run; return what is wrong, "" if nothing is."""
    run = made(seed)
    return _report(seed, run) if run.problems or run.writes else ""


def made(seed: int) -> Run:
    """Make a run."""
    with _drawing(seed) as chance, mock.patch.object(routing, "PER_SHARD", PER_SHARD):
        return virtualtime.run(_run(chance))


def fingerprint(seed: int) -> str:
    """Return what identifies a run: all that was stored, by which manager and when."""
    run = made(seed)
    history = [(change.version, change.type, *change.key, change.when, change.who) for change in run.store.changes]
    return hashlib.sha256(json.dumps([run.log, history]).encode()).hexdigest()


@contextlib.contextmanager
def processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """Give processes in which a seed means the same run, always."""
    with mock.patch.dict(os.environ, PYTHONHASHSEED="0"):
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(count, mp_context=spawn, initializer=_be_quiet) as pool:
            yield pool


def _be_quiet() -> None:
    """Log nothing: in a storm there is a lot to say."""
    logging.disable(logging.CRITICAL)


@contextlib.contextmanager
def _drawing(seed: int) -> Iterator[random.Random]:
    """Give a source of chance, and let the operator's own start at the same place; leave that as it was."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield random.Random(seed)
    finally:
        random.setstate(before)


async def _run(chance: random.Random) -> Run:
    store = Store()
    controllers = asyncio.create_task(_control(store, chance))
    slow = slowly(chance)
    first = [
        SimulatedOperator(store, chance, class_name=OURS, delays=Delays(), compiling=slow),
        SimulatedOperator(
            store, chance, class_name=OURS, delays=Delays(), leads=False, image="gateway:2", compiling=slow
        ),
        SimulatedOperator(store, chance, class_name=OTHERS, delays=Delays(), compiling=slow),
    ]
    turbulence = Turbulence(store, chance, [one.turn for one in first[:2]])
    turbulence.begin()
    await asyncio.sleep(chance.random() * 3)
    for _ in range(STEPS):
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            turbulence.change()
        await asyncio.sleep(chance.choice(PAUSES) * chance.random())
    turbulence.end()
    problems = await _rest(store, first)
    problems += [f"the oracle: {problem}" for problem in Oracle(store.documents, store.faults.lost).problems()]
    before = dict(store.documents)
    image = next(one.image for one in first if one.turn.holds())
    fresh = [
        SimulatedOperator(store, chance, class_name=OURS, delays=Delays(), image=image),
        SimulatedOperator(store, chance, class_name=OTHERS, delays=Delays()),
    ]
    problems += await _rest(store, fresh)
    controllers.cancel()
    return Run(store, turbulence.log, problems, [write for one in fresh for write in one.writing.writes], before)


async def _control(store: Store, chance: random.Random) -> None:
    """Do what the controllers of Kubernetes do, in their own time."""
    while True:
        await asyncio.sleep(chance.random() * CONTROLLER_SECONDS)
        chance.choice((store.collect_garbage, store.give_addresses, store.replace_pods))()


async def _rest(store: Store, operators: list[SimulatedOperator]) -> list[str]:
    """Let operators come to rest and end them; return what is wrong with them."""
    problems = []
    if not await at_rest(store, operators):
        jobs = {one.name: one.unfinished for one in operators if not one.is_idle}
        problems.append(f"there is no rest: {jobs}")
    problems += [f"{one.name} met a bug: {bug}" for one in operators for bug in one.bugs]
    for one in operators:
        await one.stop()
    return problems


# -- the report -------------------------------------------------------------------------------------


def _report(seed: int, run: Run) -> str:
    lines = [f"seed {seed}, which `python -m support.simulation {seed}` runs again; the last changes were:"]
    lines += [f"  {line}" for line in run.log[-SHOWN_CHANGES:]]
    lines += run.problems
    if run.writes:
        lines.append("at rest; operators that began then wrote:")
    for write in run.writes[:SHOWN_WRITES]:
        lines += _told(write, run)
    return "\n".join(lines)


def _told(write: Write, run: Run) -> Iterator[str]:
    """Yield a write, what was stored before, and how that came about."""
    stored = run.before.get(write.key, {})
    yield f"  {write.verb} {write.key}: {_short(write.document)}"
    yield f"    stored: {_short({part: stored.get(part) for part in write.document or stored})}"
    for change in [one for one in run.store.changes if one.key == write.key][-SHOWN_HISTORY:]:
        uid = change.after["metadata"]["uid"]
        yield f"    {change.when:.3f} {change.type} version {change.version} of {uid} by {change.who}"


def _short(document: Document) -> str:
    """Return a document without what is known already, and not too long."""
    metadata = {name: value for name, value in (document.get("metadata") or {}).items() if name != "managedFields"}
    parts = {name: value for name, value in document.items() if name not in ("apiVersion", "kind")}
    text = json.dumps(parts | {"metadata": metadata})
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
