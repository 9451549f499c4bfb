"""A running reflector and the objects that it delivered."""

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
    """What a reflector delivered: ``now`` is the newest by name, ``delivered`` every change since the last drain."""

    def __init__(self) -> None:
        self.now: dict[str, str] = {}
        self.delivered: list[tuple[str, str | None]] = []
        self.reflector: Reflector[Thing] | None = None

    def update(self, changes: Changes[Thing]) -> None:
        for key, thing in changes.items():
            assert isinstance(key, Key)
            self.delivered.append((key.name, None if thing is None else thing.turn))
            if thing is None:
                self.now.pop(key.name, None)
            else:
                self.now[key.name] = thing.turn

    async def until_equal(self, **desired: str) -> None:
        await until_async(lambda: self.now == desired, f"the reflector delivers {desired}", seconds=60)

    def drain_delivered(self) -> list[tuple[str, str | None]]:
        """Return and forget what was delivered."""
        delivered, self.delivered = self.delivered, []
        return delivered


@asynccontextmanager
async def mirror(
    client: Client, resource: Resource, *, decode=decode_thing, wait=True, **selection
) -> AsyncIterator[Mirror]:
    """Run a reflector, and wait for its first list unless ``wait`` is false."""
    made = Mirror()
    made.reflector = Reflector(client, resource, decode, made.update, **selection)
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
