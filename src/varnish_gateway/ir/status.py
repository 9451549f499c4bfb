"""Statuses, in the shape in which Kubernetes stores them.

No lastTransitionTime: the writer of a status adds it.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from varnish_gateway.api.varnish import GROUP


class StatusPart(Struct, frozen=True, rename="camel"):
    """Base of every part of a status."""


class Condition(StatusPart, frozen=True):
    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    observed_generation: int


WITHHELD = f"{GROUP}/Withheld"
"""A condition of our own: some pods don't understand all of a Gateway's configuration."""
NEGATIVE = frozenset(
    {"Conflicted", "InsecureFrontendValidationMode", "PartiallyInvalid", "UnsupportedFields", WITHHELD}
)
"""Conditions that report a fault when true. OverlappingTLSConfig isn't one: it is a hint, and everything is served."""


class GatewayClassStatus(StatusPart, frozen=True):
    conditions: tuple[Condition, ...]
    supported_features: tuple[dict[str, str], ...] = ()


class RouteKind(StatusPart, frozen=True):
    group: str
    kind: str


class ListenerStatus(StatusPart, frozen=True):
    name: str
    supported_kinds: tuple[RouteKind, ...]
    attached_routes: int
    conditions: tuple[Condition, ...]


class StatusAddress(StatusPart, frozen=True):
    type: Literal["IPAddress", "Hostname"]
    value: str


class GatewayStatus(StatusPart, frozen=True):
    """Without ListenerSets the field is absent: CRDs of older versions don't have the field."""

    addresses: tuple[StatusAddress, ...]
    conditions: tuple[Condition, ...]
    listeners: tuple[ListenerStatus, ...]
    attached_listener_sets: int | UnsetType = UNSET


class ListenerSetStatus(StatusPart, frozen=True):
    conditions: tuple[Condition, ...]
    listeners: tuple[ListenerStatus, ...]


class ParentRef(StatusPart, frozen=True):
    """A copy of the parentRef in the route's spec; fields that are unset there are unset here."""

    group: str
    kind: str
    name: str
    namespace: str | UnsetType = UNSET
    section_name: str | UnsetType = UNSET
    port: int | UnsetType = UNSET


class ParentStatus(StatusPart, frozen=True):
    parent_ref: ParentRef
    controller_name: str
    conditions: tuple[Condition, ...]


class RouteStatus(StatusPart, frozen=True):
    parents: tuple[ParentStatus, ...]


class AncestorStatus(StatusPart, frozen=True):
    ancestor_ref: ParentRef
    controller_name: str
    conditions: tuple[Condition, ...]


class PolicyStatus(StatusPart, frozen=True):
    ancestors: tuple[AncestorStatus, ...]


class PathResult(StatusPart, frozen=True):
    """``path`` is what the spec names: a path, or "prefix /news/", "host a.example", "tags", "route shop/web"."""

    path: str
    success: bool
    objects: int


PodReason = Literal["Confirmed", "Empty", "Gone", "Unanswered", "Rejected"]


class PodResult(StatusPart, frozen=True):
    """``success``: nothing that is meant is left in the pod, whether it confirmed that, never held it, or is gone."""

    pod_name: str
    success: bool
    reason: PodReason
    message: str = ""
    objects: int = 0
    completed_at: str | UnsetType = UNSET
    path_results: tuple[PathResult, ...] | UnsetType = UNSET


class InvalidationStatus(StatusPart, frozen=True):
    phase: Literal["Pending", "InProgress", "Complete", "Failed"]
    observed_generation: int
    conditions: tuple[Condition, ...]
    objects: int = 0
    started_at: str | UnsetType = UNSET
    completed_at: str | UnsetType = UNSET
    pod_results: tuple[PodResult, ...] = ()


Status = GatewayClassStatus | GatewayStatus | ListenerSetStatus | RouteStatus | PolicyStatus | InvalidationStatus
