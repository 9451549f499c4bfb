"""What came from a cluster and is not applied yet.

In:   pieces, as they come.
Out:  one Change of all of them. Pure.
"""

from varnish_gateway.api import EndpointSlice, Key
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.ghost.files import Pools
from varnish_gateway.ir import Tls


class Pending:
    """Filled by assignment, emptied by ``take``."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.vcl: str | None = None
        self.routing: dict[int, bytes | None] = {}
        self.slices: dict[Key, EndpointSlice | None] = {}
        self.remembered: Pools = {}
        self.listed: set[str] = set()
        self.tls: Tls | None = None
        self.generation: str | None = None

    def take(self) -> Change:
        """Return everything as one change and begin anew."""
        change = Change(
            vcl=self.vcl,
            routing=self.routing,
            slices=self.slices,
            remembered=self.remembered,
            listed=frozenset(self.listed),
            tls=self.tls,
            generation=self.generation,
        )
        self.clear()
        return change
