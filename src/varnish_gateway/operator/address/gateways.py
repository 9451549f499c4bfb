"""What the address of a Gateway has to know about it.

In:   the desired and the observed state, as they are when a request comes.
Out:  AddressedGateway, None where this operator has no such Gateway or the Gateway names no tokens.
Pure.
"""

from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from varnish_gateway.api import Gateway, Key
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.observe.state import ObservedState
from varnish_gateway.operator.plan.gateway import DesiredGateway


class AddressedGateway(Struct, frozen=True):
    """``secret`` is the name of that with the tokens of users; ``token`` is what the pods know the operator by.

    ``pods`` are those of the moment at which they are asked for.
    """

    key: Key
    secret: str
    token: str
    pods: Callable[[], Collection[GatewayPod]]


class AddressedGateways:
    def __init__(self, desired: Mapping[Key, DesiredGateway], observed: ObservedState) -> None:
        self._desired = desired
        self._observed = observed

    def find(self, namespace: str, name: str) -> AddressedGateway | None:
        key = Key(Gateway.kind, namespace, name)
        gateway = self._desired.get(key)
        secret = "" if gateway is None else gateway.gateway.metadata.annotations.invalidation_tokens
        if gateway is None or not secret:
            return None
        return AddressedGateway(
            key,
            secret,
            # Not the desired one: an operator that doesn't lead desires another than the leader stores.
            token=self._observed.token_in_use(key, gateway.uid),
            pods=lambda: tuple(self._observed.pods.get(key, {}).values()),
        )
