"""Read objects again and again, where a watch for each would cost too much.

In:   objects, by namespace and name.
Out:  ``deliver`` is called when one has changed since it was last read.
A failed read changes nothing: only 404 says that an object doesn't exist.

One task reads them all, one after the other, at a rate that depends neither on the objects nor on the namespaces.
Namespaces take turns, so that one with many objects delays only its own.
"""

import asyncio
import time
from collections.abc import Callable
from typing import NoReturn

import msgspec

from varnish_gateway import api, errors
from varnish_gateway.api import Key
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.resources import RESOURCES

POLL_SECONDS = 1.0
"""Between two reads in a namespace, however many objects there are to read. An object's first read doesn't wait."""
GAP_SECONDS = 0.02
"""Between two reads in all: 50 a second."""


class PolledObject:
    """As a Reflector: ``synced`` is set after the first answer, ``problem`` is why there is none now."""

    def __init__(
        self,
        key: Key,
        decode: Callable[[bytes], api.Object],
        deliver: Callable[[dict[Key, api.Object | None]], None],
    ) -> None:
        self.synced = asyncio.Event()
        self.problem: str | None = None
        self._key = key
        self._decode = decode
        self._deliver = deliver
        self._known = ""
        self._is_ended = False
        self._reading = asyncio.Lock()

    def end(self) -> None:
        """Deliver nothing any more, not even what is being read."""
        self._is_ended = True

    async def read(self, client: Client) -> None:
        """Read the object once. Of two reads the later one counts."""
        async with self._reading:
            await self._read(client)

    async def _read(self, client: Client) -> None:
        try:
            text = await client.get(RESOURCES[self._key.kind], self._key.name, namespace=self._key.namespace)
            version, found = content_hash(text), self._decode(text)
        except errors.NotFound:
            version, found = "", None
        except (errors.KubernetesError, msgspec.MsgspecError, errors.InvalidInput, ValueError) as error:
            self.problem = str(error)
            return
        self.problem = None
        if version != self._known and not self._is_ended:
            self._known = version
            self._deliver({self._key: found})
        self.synced.set()


class _Turns:
    """The objects of one namespace, in the order of their next reads: new ones first."""

    def __init__(self) -> None:
        self.new: dict[Key, PolledObject] = {}
        self.read: dict[Key, PolledObject] = {}
        self.next_at = 0.0

    def is_due(self, now: float) -> bool:
        return bool(self.new) or now >= self.next_at

    def take(self) -> PolledObject:
        """Return the object whose turn it is; it comes last from now on."""
        turn = self.new or self.read
        key = next(iter(turn))
        polled = turn.pop(key)
        self.read[key] = polled
        return polled


class Poller:
    """Reads objects for as long as it runs; they may come and go meanwhile."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._turns: dict[str, _Turns] = {}  # by namespace, in the order of their next turns
        self._has_work = asyncio.Event()

    def __len__(self) -> int:
        return sum(len(turns.new) + len(turns.read) for turns in self._turns.values())

    @property
    def namespaces(self) -> list[str]:
        """Namespaces with polled objects."""
        return sorted(self._turns)

    def add(self, key: Key, polled: PolledObject) -> None:
        self._turns.setdefault(key.namespace, _Turns()).new[key] = polled
        self._has_work.set()

    def remove(self, key: Key) -> None:
        turns = self._turns[key.namespace]
        (turns.new.pop(key, None) or turns.read.pop(key)).end()
        if not turns.new and not turns.read:
            del self._turns[key.namespace]

    async def run(self) -> NoReturn:
        while True:
            while not self._turns:
                self._has_work.clear()
                await self._has_work.wait()
            if (polled := self._take(time.monotonic())) is not None:
                await polled.read(self._client)
            await asyncio.sleep(GAP_SECONDS)

    def _take(self, now: float) -> PolledObject | None:
        """Return the object whose turn it is, None if no namespace is due."""
        namespace = next((name for name, turns in self._turns.items() if turns.is_due(now)), None)
        if namespace is None:
            return None
        turns = self._turns[namespace] = self._turns.pop(namespace)
        turns.next_at = now + POLL_SECONDS
        return turns.take()
