"""The state of a configuration's source, beside what serves.

In:   what the data plane serves, and the state of the source.
Out:  ServingState, as /ready reports it. A source never makes a pod unready, for the last good
configuration serves.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

import msgspec
from msgspec import Struct

from varnish_gateway.dataplane.change import ServingState


class SourceState(Struct, frozen=True):
    """``is_read``: the source was read since the start. The rest as in ServingState."""

    is_read: bool = True
    problems: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    away_since: datetime | None = None


class Source(Protocol):
    """Where changes come from."""

    @property
    def state(self) -> SourceState: ...

    @property
    def operator_token(self) -> str: ...

    def metrics(self) -> Iterator[str]:
        """Return lines for /metrics."""


def with_source(served: ServingState, state: SourceState) -> ServingState:
    """Return what serves together with the state of its source."""
    return msgspec.structs.replace(
        served,
        up_to_date=served.up_to_date and state.is_read and not state.problems,
        problems=served.problems + state.problems,
        troubles=state.troubles,
        away_since=state.away_since,
    )
