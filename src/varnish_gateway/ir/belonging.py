"""Which ListenerSets belong to which Gateway, for whoever has something to say about both.

In:   the Gateway of each ListenerSet.
Out:  the Gateway of one, and all of one Gateway. Both cost what they return.
"""

from varnish_gateway.api import Key


class Belonging:
    def __init__(self) -> None:
        self._gateways: dict[Key, Key] = {}
        self._sets: dict[Key, dict[Key, None]] = {}

    def put(self, listener_set: Key, gateway: Key | None) -> None:
        """Take in whose a ListenerSet is; None: it is nobody's any more."""
        before = self._gateways.pop(listener_set, None)
        if before is not None:
            del self._sets[before][listener_set]
            if not self._sets[before]:
                del self._sets[before]
        if gateway is not None:
            self._gateways[listener_set] = gateway
            self._sets.setdefault(gateway, {})[listener_set] = None

    def gateway_of(self, key: Key) -> Key:
        """Return the Gateway of a ListenerSet; whatever else is asked for is its own."""
        return self._gateways.get(key, key)

    def concerned_by(self, gateway: Key) -> list[Key]:
        """Return a Gateway and its ListenerSets."""
        return [gateway, *self._sets.get(gateway, ())]
