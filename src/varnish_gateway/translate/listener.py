"""A listener of a Gateway or of a ListenerSet, validated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from varnish_gateway.api.gateway_networking import RouteGroupKind, RouteNamespaces
    from varnish_gateway.translate.conditions import Problem

NO_AUTHORITY = "NoValidCACertificate"
FAMILIES = {"HTTP": "cleartext", "HTTPS": "TLS"}
"""Protocols that can share a port with others of their family only."""
_UNSERVED = {"TLS": "TLS", "TCP": "TCP"}
"""Protocols that we don't serve: they reserve no port, but can't be where another family is."""


class ValidatedListener(Struct, frozen=True):
    """``id`` is the name among all listeners of the Gateway, those of ListenerSets included.

    Each problem becomes the condition that its comment names. With ``unserved`` alone the listener
    is accepted, but none of its certificates can be used.
    """

    id: str
    name: str
    protocol: str
    port: int
    hostname: str
    kinds: tuple[RouteGroupKind, ...]
    namespaces: RouteNamespaces
    rejected: Problem | None = None  # Accepted
    conflict: Problem | None = None  # Conflicted
    unresolved: Problem | None = None  # ResolvedRefs
    unserved: Problem | None = None  # Programmed
    scheme: Literal["http", "https"] = "http"

    @property
    def is_served(self) -> bool:
        return self.rejected is None and self.unserved is None

    @property
    def holds_port(self) -> bool:
        """Whether it keeps its port and hostname: also while its authorities are missing."""
        return self.rejected is None or self.rejected.reason == NO_AUTHORITY

    @property
    def family(self) -> str:
        """The protocols that can share a port with this one; "" for one that conflicts with none."""
        return FAMILIES.get(self.protocol, _UNSERVED.get(self.protocol, ""))
