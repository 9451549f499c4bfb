"""Keep our GatewayClass for as long as Gateways use it.

In:   the class as it is stored, and whether it is in use.
Out:  the finalizer of the Gateway API on it, or not: whoever deletes the class by mistake does
      not take the traffic of its Gateways with it.
"""

from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.kube.resources import RESOURCES
from varnish_gateway.operator.execute.writer import Writer
from varnish_gateway.operator.observe.sources import Sources

FINALIZER = "gateway-exists-finalizer.gateway.networking.k8s.io"


class Finalizer:
    def __init__(self, writer: Writer, sources: Sources) -> None:
        self._writer = writer
        self._sources = sources

    async def bring(self, key: Key, *, in_use: bool) -> None:
        """Have the finalizer on the class, or not. A class that is going takes no new one."""
        seen = self._sources.stated.get(key)
        if seen is None or in_use == (FINALIZER in seen.finalizers) or (in_use and seen.is_ending):
            return
        document = {
            "apiVersion": RESOURCES[key.kind].api_version,
            "kind": key.kind,
            # With the uid: a class that is gone meanwhile is not made anew.
            "metadata": {"name": key.name, "uid": seen.obj.metadata.uid, "finalizers": [FINALIZER] if in_use else []},
        }
        await self._writer.apply(document, manager=names.GATEWAY_MANAGER)
