"""Protect our GatewayClass while Gateways use it.

In:   the class as observed, and whether it is in use.
Out:  the finalizer of the Gateway API on it, or no finalizer. A user who deletes the class by
      mistake doesn't interrupt the traffic of its Gateways.
"""

from varnish_gateway.emit import names
from varnish_gateway.kube.resources import RESOURCES
from varnish_gateway.operator.execute.writer import Writer
from varnish_gateway.operator.observe.state import ObservedState

FINALIZER = "gateway-exists-finalizer.gateway.networking.k8s.io"


class FinalizerWriter:
    def __init__(self, writer: Writer, observed: ObservedState) -> None:
        self._writer = writer
        self._observed = observed

    async def ensure(self, *, in_use: bool) -> None:
        """Set or remove the finalizer. A class that is being deleted accepts no new one."""
        key = self._observed.class_key
        observed = self._observed.inputs.get(key)
        if observed is None or in_use == (FINALIZER in observed.finalizers) or (in_use and observed.is_deleting):
            return
        # With the uid: an apply must not recreate a class that was deleted meanwhile.
        metadata = {"name": key.name, "uid": observed.obj.metadata.uid, "finalizers": [FINALIZER] if in_use else []}
        document = {"apiVersion": RESOURCES[key.kind].api_version, "kind": key.kind, "metadata": metadata}
        await self._writer.apply(document, manager=names.GATEWAY_MANAGER)
