"""Watches of everything the operator reads.

In:   the API server.
Out:  ``batch`` waits for changes and returns them; ``observed`` holds the newest version of every object.

kinds.py says what is watched and how. Objects of some kinds are watched one by one, as others
reference them: see references.py.
"""

import asyncio
from contextlib import AbstractContextManager
from typing import Any

from varnish_gateway.api import Key
from varnish_gateway.decoding import json_decoder
from varnish_gateway.emit import names
from varnish_gateway.kinds import Kind, Use, used_for
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.reflector import Reflector
from varnish_gateway.kube.resources import RESOURCES, Resource
from varnish_gateway.operator.observe.changes import ChangeCollector
from varnish_gateway.operator.observe.inputs import input_decoder
from varnish_gateway.operator.observe.owned import OwnedObject, owned_decoder
from varnish_gateway.operator.observe.pods import decode_pod
from varnish_gateway.operator.observe.references import Referenced, ReferencedObjects
from varnish_gateway.operator.observe.state import Batch, ObservedState

MOST_PROBLEMS = 5
"""So many references that can't be read are named, the others are counted."""


class Watches:
    def __init__(self, client: Client, observed: ObservedState) -> None:
        self.observed = observed
        self._client = client
        self._changed = asyncio.Event()
        self._changes = ChangeCollector(observed, self._changed.set)
        self._references = ReferencedObjects(client, self._changes.on_references)
        selector = names.owned_selector(observed.class_key.name)
        self._owned = {kind.name: self._owned_reflector(kind, selector) for kind in used_for(Use.OWNED)}
        self._inputs = {kind.name: self._input_reflector(kind) for kind in used_for(Use.INPUT)}
        self._pods = Reflector(client, RESOURCES["Pod"], decode_pod, self._changes.on_pods, label_selector=selector)
        self._reflectors: list[Reflector[Any]] = [*self._inputs.values(), *self._owned.values(), self._pods]

    # -- running -------------------------------------------------------------------------

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    async def synced(self) -> None:
        """Return once every kind was listed."""
        for reflector in self._reflectors:
            await reflector.synced.wait()

    @property
    def watched(self) -> list[str]:
        """Kinds with a watch; a kind that is both an input and generated has two."""
        return [reflector.resource.kind for reflector in self._reflectors]

    @property
    def problems(self) -> list[str]:
        """What can't be watched at the moment. A kind that is not installed isn't a problem."""
        kinds = [one.problem for one in self._reflectors if one.problem and not one.absent]
        references = list(self._references.problems)
        more = len(references) - MOST_PROBLEMS
        return [*kinds, *references[:MOST_PROBLEMS], *([f"and {more} more references"] if more > 0 else ())]

    @property
    def problem_with_pods(self) -> str | None:
        """Why pods can't be watched at the moment, so that there may be others than those that are observed."""
        return self._pods.problem

    @property
    def absent(self) -> list[str]:
        """Kinds that are not installed."""
        return [one.resource.kind for one in self._reflectors if one.absent]

    @property
    def polled(self) -> str:
        """What is polled because there are too many references to watch; "" for none."""
        return self._references.polled

    async def batch(self) -> Batch:
        """Wait for a change; return everything that changed."""
        await self._changed.wait()
        return self.drain()

    def wake(self) -> None:
        """Let ``batch`` return, also if nothing changed."""
        self._changed.set()

    async def follow_references(self, referenced: Referenced, group: asyncio.TaskGroup) -> Batch | None:
        """Watch the referenced objects that translation depends on.

        Return None if they are watched already; otherwise what changed by the time the new ones were read.
        """
        return self.drain() if await self._references.follow(referenced, group) else None

    def drain(self) -> Batch:
        """Return everything that changed up to now."""
        self._changed.clear()
        return self._changes.drain()

    def served(self, kind: str) -> Resource:
        """Return where the API server serves an input that is watched, in the version that it is read in."""
        return self._inputs[kind].resource

    # -- answers to our own writes -------------------------------------------------------

    def writing(self, key: Key) -> AbstractContextManager[None]:
        """Enclose a write and its ``record_owned``."""
        return self._changes.writing(key)

    def record_owned(self, key: Key, owned: OwnedObject) -> None:
        """Record a generated object as the API server returned it."""
        self._changes.record_owned(key, owned, self._owned[key.kind].note)

    def record_status(self, key: Key, version: str, status: bytes) -> None:
        """Record a status as the API server returned it."""
        self._changes.record_status(key, version, status)

    # -- reflectors ----------------------------------------------------------------------

    def _input_reflector(self, kind: Kind) -> Reflector[Any]:
        has_status = Use.STATUS in kind.uses
        return Reflector(
            self._client,
            RESOURCES[kind.name],
            input_decoder(kind) if has_status else json_decoder(kind).decode,
            self._changes.on_inputs if has_status else self._changes.on_references,
            field_selector=kind.field_selector,
            other_versions=kind.fallback_versions,
        )

    def _owned_reflector(self, kind: Kind, selector: str) -> Reflector[OwnedObject]:
        return Reflector(
            self._client,
            RESOURCES[kind.name],
            owned_decoder(kind.name),
            self._changes.on_owned,
            label_selector=selector,
        )
