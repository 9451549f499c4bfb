"""How the source of a configuration stands, beside what serves.

In:   what the data plane serves, and what the source says about itself.
Out:  Served, as health tells it. Whatever the source says, it is ready all the same, for the
last good configuration serves.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

import msgspec
from msgspec import Struct

from varnish_gateway.dataplane.change import Served


class SourceState(Struct, frozen=True):
    """``is_read``: what serves is not only what was found on disk. The rest as in Served."""

    is_read: bool = True
    problems: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    away_since: datetime | None = None


class Source(Protocol):
    """Where changes come from."""

    @property
    def state(self) -> SourceState: ...

    def metrics(self) -> Iterator[str]:
        """Return lines for /metrics."""


def with_source(served: Served, state: SourceState) -> Served:
    """Return what serves together with what is known of its source."""
    return msgspec.structs.replace(
        served,
        up_to_date=served.up_to_date and state.is_read and not state.problems,
        problems=served.problems + state.problems,
        troubles=state.troubles,
        away_since=state.away_since,
    )
