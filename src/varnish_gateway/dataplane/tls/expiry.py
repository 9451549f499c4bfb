"""When the certificates that serve come to their end.

In:   plans, and the time.
Out:  the end of each, and those that have come to it and were not told yet.
"""

from typing import NamedTuple

from cryptography import x509

from varnish_gateway.dataplane.tls.plan import Plan
from varnish_gateway.emit.haproxy import Slot, default_slot


class Dated(NamedTuple):
    """A certificate that serves, and when it ends (seconds since 1970)."""

    port: int
    names: str
    expires: float


class Expiry:
    """Reads a certificate once, when it is new in its slot."""

    def __init__(self) -> None:
        self._plan = Plan()
        self._dated: dict[str, Dated] = {}
        self._told: set[Dated] = set()

    def take(self, plan: Plan) -> None:
        before, self._plan = self._plan, plan
        dated: dict[str, Dated] = {}
        for port, slots in plan.lists.items():
            for slot in _once(plan, port, slots):
                if slot.name in self._dated and before.files.get(slot.name) == plan.files[slot.name]:
                    dated[slot.name] = self._dated[slot.name]
                elif (end := expires(plan.files[slot.name])) is not None:
                    dated[slot.name] = Dated(port, ", ".join(slot.names), end)
        self._dated = dated
        self._told &= set(dated.values())

    @property
    def dated(self) -> tuple[Dated, ...]:
        return tuple(self._dated.values())

    def news(self, now: float) -> list[Dated]:
        """Return what has expired since this was asked last."""
        fresh = [one for one in self.dated if one.expires <= now and one not in self._told]
        self._told.update(fresh)
        return fresh

    def next(self, now: float) -> float | None:
        """Return when the next one expires."""
        return min((one.expires for one in self.dated if one.expires > now), default=None)


def expires(pair: bytes) -> float | None:
    """Return when a certificate ends; that of the server is the first in its file.

    None where it can't be read: OpenSSL, which has taken it, is less strict.
    """
    try:
        return x509.load_pem_x509_certificate(pair).not_valid_after_utc.timestamp()
    except ValueError:
        return None


def _once(plan: Plan, port: int, slots: tuple[Slot, ...]) -> list[Slot]:
    """Leave the default out where it stands under its names as well."""
    default = default_slot(port)
    named = [slot for slot in slots if slot != default]
    if any(plan.files[slot.name] == plan.files[default.name] for slot in named):
        return named
    return [default, *named]
