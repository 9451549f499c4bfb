"""A batch of changes with its translation: what the Reconciler applies at once.

In:   batches and deltas, in their order.
Out:  as few steps as possible. A route that one translation removes and the next one adds again, because a
      referenced object was read in between, then changes nothing: neither shards nor statuses.
Pure.
"""

from typing import NamedTuple

from varnish_gateway import ir
from varnish_gateway.operator.observe.state import Batch


class Step(NamedTuple):
    batch: Batch
    delta: ir.Delta

    def merge(self, later: "Step") -> "Step | None":
        """Return both as one step; None where a Gateway is deleted by this one and recreated by the later one."""
        delta = self.delta.merge(later.delta)
        return None if delta is None else Step(_merged(self.batch, later.batch), delta)


def _merged(before: Batch, after: Batch) -> Batch:
    return Batch(
        inputs={**before.inputs, **after.inputs},
        stored=before.stored | after.stored,
        owned=before.owned | after.owned,
        reachability=before.reachability | after.reachability,
        has_released=before.has_released or after.has_released,
    )
