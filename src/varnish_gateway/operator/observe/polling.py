"""Read objects again and again, where a watch for each would cost too much.

In:   objects of one namespace, by name.
Out:  ``deliver`` is called when one has changed since it was last read.
A failed read changes nothing: only 404 says that an object doesn't exist.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import NoReturn

import msgspec

from varnish_gateway import api, errors
from varnish_gateway.api import Key
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.resources import RESOURCES

POLL_SECONDS = 1.0
"""Between two reads in a namespace, however many objects there are to read."""


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

    def end(self) -> None:
        """Deliver nothing any more, not even what is being read."""
        self._is_ended = True

    async def read(self, client: Client) -> None:
        """Read the object once."""
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


async def poll_forever(client: Client, objects: Mapping[Key, PolledObject]) -> NoReturn:
    """Read one object after the other, for as long as there are any; ``objects`` may change meanwhile."""
    while True:
        for key in list(objects):
            await asyncio.sleep(POLL_SECONDS)
            if key in objects:
                await objects[key].read(client)
        if not objects:
            await asyncio.sleep(POLL_SECONDS)
