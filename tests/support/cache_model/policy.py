"""The fields of a VarnishCachePolicy that decide about freshness, in milliseconds.

``grace`` replaces what the origin says about stale-while-revalidate; ``stale_while_revalidate``
and ``stale_if_error`` apply where it says nothing.
"""

from dataclasses import dataclass
from typing import Any

HOUR = 3_600_000


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Exactly one of ``default_ttl`` and ``forced_ttl`` is set."""

    default_ttl: int | None = None
    forced_ttl: int | None = None
    grace: int | None = None
    stale_while_revalidate: int | None = None
    stale_if_error: int | None = None
    keep: int = HOUR

    def document(self) -> dict[str, Any]:
        """Return the policy as the wire format has it."""
        fields = {
            "defaultTTL": self.default_ttl,
            "forcedTTL": self.forced_ttl,
            "grace": self.grace,
            "staleWhileRevalidate": self.stale_while_revalidate,
            "staleIfError": self.stale_if_error,
            "keep": self.keep,
        }
        return {name: value for name, value in fields.items() if value is not None}
