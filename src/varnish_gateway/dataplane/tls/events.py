"""Events of the TLS terminator."""

import logging

from varnish_gateway.dataplane.events import Event


class HaproxyStarted(Event, frozen=True):
    pid: int
    ports: tuple[int, ...]

    @property
    def sentence(self) -> str:
        return f"HAProxy serves port {', '.join(map(str, self.ports))}"


class HaproxyExited(Event, frozen=True):
    reason: str
    level = logging.ERROR

    @property
    def sentence(self) -> str:
        return f"{self.reason}; restarting it with the last good certificates"


class HaproxyBack(Event, frozen=True):
    seconds: float

    @property
    def sentence(self) -> str:
        return f"HAProxy is back after {self.seconds:.2f} s"


class HaproxyReloaded(Event, frozen=True):
    ports: tuple[int, ...]
    seconds: float

    @property
    def sentence(self) -> str:
        return f"HAProxy reloaded; it serves port {', '.join(map(str, self.ports))}"


class CertificatesChanged(Event, frozen=True):
    """Changed while HAProxy serves, without an effect on connections."""

    replaced: int
    added: int
    removed: int
    seconds: float

    @property
    def sentence(self) -> str:
        return f"certificates: {self.replaced} replaced, {self.added} added, {self.removed} removed"


class TlsFailed(Event, frozen=True):
    reasons: tuple[str, ...]
    level = logging.ERROR

    @property
    def sentence(self) -> str:
        return f"TLS rejected, the last good certificates keep serving: {'; '.join(self.reasons)}"


class PortsUnserved(Event, frozen=True):
    ports: tuple[int, ...]
    level = logging.WARNING

    @property
    def sentence(self) -> str:
        return f"not served without a certificate: port {', '.join(map(str, self.ports))}"


class CertificateExpired(Event, frozen=True):
    names: str
    port: int
    level = logging.WARNING

    @property
    def sentence(self) -> str:
        return f"the certificate of {self.names} on port {self.port} has expired; clients reject it"
