"""A Gateway's certificates and the token of its operator from a cluster.

In:   its Secret, by name.
Out:  ``on_change`` is called with the TLS of the Secret, whenever that changes; ``token`` is the newest one.
Inconsistent certificates change nothing, and neither does a Secret that was deleted.
"""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from varnish_gateway import errors
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.tls.material import read_tls
from varnish_gateway.emit.names import TOKEN
from varnish_gateway.ir import Tls
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.reflector import Changes, Reflector
from varnish_gateway.kube.resources import RESOURCES

SECRET_SECONDS = 5.0
"""How long the API server has to forbid the Secret before the first configuration applies without certificates."""


class GatewaySecret(Struct, frozen=True):
    """The part of a Secret that we read. Its content is never logged."""

    data: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"GatewaySecret({', '.join(self.data)})"


_decode = msgspec.json.Decoder(GatewaySecret).decode


class SecretFeed:
    """``run`` watches until it is cancelled."""

    def __init__(self, settings: Settings, client: Client, bus: events.Bus, on_change: Callable[[Tls], None]) -> None:
        self._source = f"Secret {settings.namespace}/{settings.secret_name}"
        self._bus = bus
        self._on_change = on_change
        self._reflector = Reflector(
            client,
            RESOURCES["Secret"],
            _decode,
            self._on_secret,
            namespace=settings.namespace,
            name=settings.secret_name,
        )
        self.rejections: tuple[str, ...] = ()
        """Why the content of the Secret can't be used."""
        self.token = ""

    async def run(self) -> None:
        await self._reflector.run()

    @property
    def problem(self) -> str | None:
        """Why the Secret can't be watched now."""
        return self._reflector.problem

    async def until_read(self) -> None:
        """Wait until the Secret was read, or until the API server has forbidden that for a while."""
        await self._reflector.until_listed(forbidden=SECRET_SECONDS)

    def _on_secret(self, changes: Changes[GatewaySecret]) -> None:
        for secret in changes.values():
            if secret is not None:
                self.token = secret.data.get(TOKEN, b"").decode(errors="replace")
            before, self.rejections = self.rejections, ()
            try:
                self._on_change(_read(secret, self._source))
            except errors.BadDocument as error:
                self.rejections = (str(error),)
                if self.rejections != before:
                    self._bus.publish(events.SourceProblems(problems=self.rejections))


def _read(secret: GatewaySecret | None, source: str) -> Tls:
    if secret is None:
        raise errors.BadDocument(f"{source} does not exist")
    return read_tls(secret.data, source)
