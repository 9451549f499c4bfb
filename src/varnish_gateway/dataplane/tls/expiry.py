"""When the serving certificates expire.

In:   plans, and the time.
Out:  the expiry of each certificate, and those that have expired since the last call.
"""

from typing import NamedTuple

from cryptography import x509

from varnish_gateway.dataplane.tls.plan import TlsPlan
from varnish_gateway.emit.haproxy import Slot, default_slot


class CertificateExpiry(NamedTuple):
    """A serving certificate, and when it expires (seconds since 1970)."""

    port: int
    names: str
    expires: float


class Expiry:
    """Parses a certificate once, when it is new in its slot."""

    def __init__(self) -> None:
        self._plan = TlsPlan()
        self._dated: dict[str, CertificateExpiry] = {}
        self._reported: set[CertificateExpiry] = set()

    def update(self, plan: TlsPlan) -> None:
        before, self._plan = self._plan, plan
        dated: dict[str, CertificateExpiry] = {}
        for port, slots in plan.lists.items():
            for slot in _distinct(plan, port, slots):
                if slot.name in self._dated and before.files.get(slot.name) == plan.files[slot.name]:
                    dated[slot.name] = self._dated[slot.name]
                elif (end := expires(plan.files[slot.name])) is not None:
                    dated[slot.name] = CertificateExpiry(port, ", ".join(slot.names), end)
        self._dated = dated
        self._reported &= set(dated.values())

    @property
    def dated(self) -> tuple[CertificateExpiry, ...]:
        return tuple(self._dated.values())

    def newly_expired(self, now: float) -> list[CertificateExpiry]:
        """Return the certificates that have expired since the last call."""
        expired = [one for one in self.dated if one.expires <= now and one not in self._reported]
        self._reported.update(expired)
        return expired

    def next(self, now: float) -> float | None:
        """Return when the next one expires."""
        return min((one.expires for one in self.dated if one.expires > now), default=None)


def expires(pair: bytes) -> float | None:
    """Return when a certificate expires; the server's is the first in its file.

    None where it can't be parsed: OpenSSL, which accepted it, is less strict.
    """
    try:
        return x509.load_pem_x509_certificate(pair).not_valid_after_utc.timestamp()
    except ValueError:
        return None


def _distinct(plan: TlsPlan, port: int, slots: tuple[Slot, ...]) -> list[Slot]:
    """Leave out the default slot where another slot holds the same certificate."""
    default = default_slot(port)
    named = [slot for slot in slots if slot != default]
    if any(plan.files[slot.name] == plan.files[default.name] for slot in named):
        return named
    return [default, *named]
