"""A reflector that runs, and what it delivered."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec

from support.waiting import until_async
from varnish_gateway.api import Key
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.reflector import Changes, Reflector
from varnish_gateway.kube.resources import Resource


class Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str
    annotations: dict[str, str] = {}


class Thing(msgspec.Struct):
    """Any object: it differs from others of its name by the annotation ``turn``."""

    metadata: Metadata

    @property
    def turn(self) -> str:
        return self.metadata.annotations.get("turn", "")


decode_thing = msgspec.json.Decoder(Thing).decode


class Mirror:
    """What a reflector delivered: ``now`` by name, and ``told``, which a test may clear."""

    def __init__(self) -> None:
        self.now: dict[str, str] = {}
        self.told: list[tuple[str, str | None]] = []
        self.reflector: Reflector[Thing] | None = None

    def take(self, changes: Changes[Thing]) -> None:
        for key, thing in changes.items():
            assert isinstance(key, Key)
            self.told.append((key.name, None if thing is None else thing.turn))
            if thing is None:
                self.now.pop(key.name, None)
            else:
                self.now[key.name] = thing.turn

    async def until(self, **wanted: str) -> None:
        await until_async(lambda: self.now == wanted, f"{wanted} is not delivered", seconds=60)

    def told_since(self) -> list[tuple[str, str | None]]:
        """Return and forget what was delivered."""
        told, self.told = self.told, []
        return told


@asynccontextmanager
async def mirror(
    client: Client, resource: Resource, *, decode=decode_thing, wait=True, **selection
) -> AsyncIterator[Mirror]:
    """Give a mirror whose reflector has delivered its first list, unless nobody waits for that."""
    made = Mirror()
    made.reflector = Reflector(client, resource, decode, made.take, **selection)
    task = asyncio.create_task(made.reflector.run())
    try:
        if wait:
            async with asyncio.timeout(30):
                await made.reflector.synced.wait()
        yield made
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
