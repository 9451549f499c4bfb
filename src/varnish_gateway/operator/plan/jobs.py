"""Jobs: one for each thing that can be written or probed.

A job names what to look at, not what to write: the executor compares desired and observed state
when it runs the job. So a job can run any number of times, at any time.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from varnish_gateway.api import Key

Action = Literal["routing", "object", "probe", "status", "finalizer", "notice", "invalidate"]

MANY = ("HTTPRoute", "BackendTLSPolicy", "VarnishCachePolicy", "VarnishCacheInvalidation")
"""Kinds of which tenants have many objects."""
_URGENCY: dict[Action, int] = {
    "routing": 0,
    "object": 1,
    "finalizer": 1,
    "probe": 2,
    "status": 2,
    "invalidate": 2,
    "notice": 3,
}


class Job(NamedTuple):
    """Routing and probe concern the Gateway of that key; the others the object of that key."""

    action: Action
    key: Key

    @property
    def urgency(self) -> int:
        """Traffic first, then statuses of Gateways and ListenerSets, then those of the many routes and policies."""
        if self.action == "status" and self.key.kind in MANY:
            return 3
        return _URGENCY[self.action]


class Jobs(dict[Job, float]):
    """Jobs in order, each with the seconds to wait before it runs."""

    def add(self, action: Action, *keys: Key, delay: float = 0.0) -> None:
        for key in keys:
            job = Job(action, key)
            self[job] = min(delay, self.get(job, delay))

    def add_all(self, action: Action, keys: Iterable[Key]) -> None:
        self.add(action, *keys)

    def merge(self, other: "Jobs") -> None:
        for job, delay in other.items():
            self[job] = min(delay, self.get(job, delay))
