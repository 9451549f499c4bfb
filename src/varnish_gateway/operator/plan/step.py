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
        before, after = self.delta.gateways, later.delta.gateways
        gateways = {**before}
        for key, changes in after.items():
            known = before.get(key)
            if changes is not None and key in before and known is None:
                return None
            gateways[key] = changes if changes is None or known is None else known.merge(changes)
        statuses = {**self.delta.statuses, **later.delta.statuses}
        return Step(_merged(self.batch, later.batch), ir.Delta(gateways=gateways, statuses=statuses))


def _merged(before: Batch, after: Batch) -> Batch:
    return Batch(
        inputs={**before.inputs, **after.inputs},
        stored=before.stored | after.stored,
        owned=before.owned | after.owned,
        reachability=before.reachability | after.reachability,
        has_released=before.has_released or after.has_released,
    )
