"""Statuses, in the shape in which Kubernetes stores them.

No lastTransitionTime: the writer of a status adds it.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType


class StatusPart(Struct, frozen=True, rename="camel"):
    """Base of every part of a status."""


class Condition(StatusPart, frozen=True):
    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    observed_generation: int


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


Status = GatewayClassStatus | GatewayStatus | ListenerSetStatus | RouteStatus | PolicyStatus
