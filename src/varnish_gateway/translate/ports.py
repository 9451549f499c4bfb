"""Ports of one machine, where several Gateways can ask for the same one.

In:   which Gateway asks for which ports, and how old it is.
Out:  the owner of each port: the oldest Gateway, then the first by namespace/name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from varnish_gateway.api import Key


class Ports:
    """The claims on ports. A change costs the claims on the ports that it touches."""

    def __init__(self) -> None:
        self.owners: dict[int, Key] = {}
        self._claims: dict[int, dict[Key, int]] = {}
        self._claimed: dict[Key, frozenset[int]] = {}

    def claim(self, key: Key, ports: frozenset[int], *, created: int) -> Iterable[int]:
        """Take in what a Gateway asks for; return the ports whose owner may have changed."""
        before = self._claimed.pop(key, frozenset())
        if ports:
            self._claimed[key] = ports
        for port in before - ports:
            del self._claims[port][key]
        for port in ports:
            self._claims.setdefault(port, {})[key] = created
        touched = before | ports
        for port in touched:
            self._settle(port)
        return touched

    def _settle(self, port: int) -> None:
        if claims := self._claims[port]:
            self.owners[port] = min(claims, key=lambda key: (claims[key], key.namespace, key.name))
        else:
            del self._claims[port]
            self.owners.pop(port, None)
