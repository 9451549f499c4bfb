"""A Gateway's certificates from a cluster.

In:   its Secret, by name.
Out:  ``take`` is called with the TLS that it holds, whenever that changes. What does not fit
together leaves what serves as it is, and so does a Secret that is gone.
"""

import asyncio
import contextlib
from collections.abc import Callable

import msgspec
from msgspec import Struct

from varnish_gateway import errors
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.tls.material import read_tls
from varnish_gateway.ir import Tls
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.reflector import Changes, Reflector
from varnish_gateway.kube.resources import RESOURCES

SECRET_SECONDS = 5.0
"""How long the first configuration waits for certificates that can't be read."""


class GatewaySecret(Struct, frozen=True):
    """A Secret with what we read of it; what it holds is never shown."""

    data: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"GatewaySecret({', '.join(self.data)})"


_decode = msgspec.json.Decoder(GatewaySecret).decode


class SecretFeed:
    """``run`` watches until it is cancelled."""

    def __init__(self, settings: Settings, client: Client, bus: events.Bus, take: Callable[[Tls], None]) -> None:
        self._source = f"Secret {settings.namespace}/{settings.secret_name}"
        self._bus = bus
        self._take = take
        self._reflector = Reflector(
            client,
            RESOURCES["Secret"],
            _decode,
            self._hear,
            namespace=settings.namespace,
            name=settings.secret_name,
        )
        self.refused: tuple[str, ...] = ()
        """What stands against what the Secret holds."""

    async def run(self) -> None:
        await self._reflector.run()

    @property
    def problem(self) -> str | None:
        """Why it can't be followed now."""
        return self._reflector.problem

    async def settle(self) -> None:
        """Wait for the Secret to be read, but not for long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SECRET_SECONDS):
                await self._reflector.synced.wait()

    def _hear(self, changes: Changes[GatewaySecret]) -> None:
        for said in changes.values():
            before, self.refused = self.refused, ()
            try:
                self._take(_read(said, self._source))
            except errors.BadDocument as error:
                self.refused = (str(error),)
                if self.refused != before:
                    self._bus.publish(events.SourceProblems(problems=self.refused))


def _read(said: GatewaySecret | None, source: str) -> Tls:
    if said is None:
        raise errors.BadDocument(f"{source} does not exist")
    return read_tls(said.data, source)
