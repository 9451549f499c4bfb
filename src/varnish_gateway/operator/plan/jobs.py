"""What there is to do, one job for each thing that can be written or asked."""

from typing import Literal, NamedTuple

from varnish_gateway.api import Key

What = Literal["routing", "object", "probe", "status", "finalizer"]


class Job(NamedTuple):
    """Routing and probe concern a Gateway; the others the object of that key."""

    what: What
    key: Key

    @property
    def urgency(self) -> int:
        """Traffic first, then what Gateways and ListenerSets say of themselves, then the many routes."""
        if self.what == "status" and self.key.kind == "HTTPRoute":
            return 3
        return {"routing": 0, "object": 1, "finalizer": 1, "probe": 2, "status": 2}[self.what]
