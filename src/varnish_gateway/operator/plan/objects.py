"""Manifests of all generated objects but the ConfigMaps of routing, by Gateway.

In:   the changed manifests of one Gateway.
Out:  the desired manifest of an object, and its Gateway.
Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from varnish_gateway.api import Key

Manifest = Mapping[str, Any]


class DesiredObjects:
    def __init__(self) -> None:
        self._manifests: dict[Key, Manifest] = {}
        self._gateways: dict[Key, Key] = {}
        self._by_gateway: dict[Key, set[Key]] = {}

    def update(self, gateway: Key, changed: Mapping[Key, Manifest | None]) -> None:
        """Replace manifests of a Gateway; None for an object that is no longer desired."""
        keys = self._by_gateway.setdefault(gateway, set())
        for key, manifest in changed.items():
            if manifest is None:
                keys.discard(key)
                self._forget(key)
            else:
                keys.add(key)
                self._manifests[key] = manifest
                self._gateways[key] = gateway

    def drop(self, gateway: Key) -> None:
        """Remove every manifest of a Gateway."""
        for key in self._by_gateway.pop(gateway, ()):
            self._forget(key)

    def get(self, key: Key) -> Manifest | None:
        return self._manifests.get(key)

    def gateway_of(self, key: Key) -> Key | None:
        return self._gateways.get(key)

    def keys(self) -> Iterable[Key]:
        return self._manifests.keys()

    def items(self) -> Iterable[tuple[Key, Manifest]]:
        return self._manifests.items()

    def __contains__(self, key: Key) -> bool:
        return key in self._manifests

    def _forget(self, key: Key) -> None:
        self._manifests.pop(key, None)
        self._gateways.pop(key, None)
