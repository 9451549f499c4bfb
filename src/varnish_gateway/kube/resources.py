"""Where the API server serves the objects of a kind.

In:   the table of kinds.
Out:  Resource: the path of a collection, an object or a subresource.
Pure.
"""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from varnish_gateway.kinds import KINDS


class Resource(NamedTuple):
    """A kind in one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def discovery(self) -> str:
        """The path that lists the kinds of this group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of an object, or of the collection when there is no name."""
        path = self.discovery
        if namespace and self.namespaced:
            path += f"/namespaces/{_segment(namespace)}"
        path += f"/{self.plural}"
        if name:
            path += f"/{_segment(name)}"
        return f"{path}/{subresource}" if subresource else path


def _segment(name: str) -> str:
    return name if name.isalnum() else quote(name, safe=":-._~")


RESOURCES: Mapping[str, Resource] = {
    kind.name: Resource(kind.group, kind.version, kind.plural, kind.name, kind.namespaced) for kind in KINDS.values()
}
"""By kind."""
