"""The names of the routes that ghost serves.

In:   the Bundle in force.
Out:  "namespace/name" of each route. Files are named by their content, so each is read once.
"""

import msgspec
from msgspec import Struct

from varnish_gateway.dataplane.ghost.files import Bundle


class _Name(Struct, frozen=True):
    """The part of wire.Route that names it; the rest is skipped, which is quick."""

    namespace: str
    name: str


class _Names(Struct, frozen=True):
    """A shard of routes; one of endpoints has none."""

    routes: tuple[_Name, ...] = ()


decode_names = msgspec.json.Decoder(_Names).decode


class RouteNames:
    def __init__(self) -> None:
        self._by_file: dict[str, frozenset[str]] = {}

    def of(self, bundle: Bundle) -> frozenset[str]:
        """Return the routes of a bundle."""
        self._by_file = {
            file: self._by_file[file] if file in self._by_file else _names(content)
            for file, content in bundle.files.items()
        }
        return frozenset().union(*self._by_file.values())


def _names(content: bytes) -> frozenset[str]:
    return frozenset(f"{route.namespace}/{route.name}" for route in decode_names(content).routes)
