"""Status documents, fitted to what is stored.

In:   a desired status from translation, and the stored one.
Out:  the document to write, or None if the stored status equals it.
Pure; the time is an argument. A condition keeps its lastTransitionTime while its status stays
the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from varnish_gateway import api, ir

Document = dict[str, Any]
IsOurs = Callable[[Document], bool]
Applied = ir.GatewayStatus | ir.GatewayClassStatus | ir.ListenerSetStatus

TRANSIENT = ("Pending", "AddressNotAssigned", "ParentNotProgrammed")
"""Reasons that resolve with time, or that another object reports: no Event is published for them."""
NEGATIVE = ("Conflicted", "InsecureFrontendValidationMode", "PartiallyInvalid", "UnsupportedFields")
"""Conditions that report a fault when true. OverlappingTLSConfig isn't one: it is a hint, and everything is served."""
ONLY_TRUE = frozenset({"InsecureFrontendValidationMode", "OverlappingTLSConfig", "UnsupportedFields"})
"""Conditions that we remove instead of setting them to False."""
PARENT_CONDITIONS = ("Accepted", "ResolvedRefs", "PartiallyInvalid")
"""Conditions that we own in the entry of a route's parent or a policy's ancestor; other controllers own the rest."""


class SharedList(NamedTuple):
    """The list of a status that all controllers write to, the field that names an entry's object, and the limit."""

    name: str
    ref: str
    limit: int


SHARED: Mapping[str, SharedList] = {
    api.HTTPRoute.kind: SharedList("parents", "parentRef", 32),
    api.BackendTLSPolicy.kind: SharedList("ancestors", "ancestorRef", 16),
}
"""Kinds whose status is such a list."""
PARTS = ("listeners", *(shared.name for shared in SHARED.values()))
"""The parts of a status that have conditions of their own."""


def applied_status(desired: Applied, stored_status: bytes, now: str) -> Document | None:
    """Return the status of a Gateway, a ListenerSet or a GatewayClass, for server-side apply."""
    stored = _mapping(stored_status)
    document = _plain(desired)
    timed = {**document, "conditions": _timed(document["conditions"], stored.get("conditions"), now)}
    if "listeners" in document:
        timed["listeners"] = [_timed_listener(one, stored.get("listeners"), now) for one in document["listeners"]]
    return None if _matches(stored, timed) and not _has_stale_count(stored, timed) else timed


def shared_status(
    shared: SharedList, desired: ir.Status | None, stored: bytes, is_ours: IsOurs, now: str
) -> Document | None:
    """Return the whole status of a route or policy: entries of other controllers unchanged, then ours.

    Ours are cut where the list is full.
    """
    entries: list[Document] = _mapping(stored).get(shared.name) or []
    others = [entry for entry in entries if not is_ours(entry)]
    ours = [entry for entry in entries if is_ours(entry)]
    found = [] if desired is None else _plain(desired)[shared.name]
    new = [_timed_entry(shared.ref, entry, ours, now) for entry in found[: max(0, shared.limit - len(others))]]
    return None if new == ours else {shared.name: [*others, *new]}


def needs_waiting_status(desired: ir.GatewayClassStatus, stored: bytes) -> bool:
    """Whether to write that a class of our controller waits for its own operator.

    Only if no status covers this generation. Once the class has its operator, that one writes the status.
    """
    conditions = _mapping(stored).get("conditions") or ()
    accepted: Document = next((one for one in conditions if one.get("type") == "Accepted"), {})
    observed_generation = accepted.get("observedGeneration")
    return (
        accepted.get("status", "Unknown") == "Unknown"
        and observed_generation != desired.conditions[0].observed_generation
    )


def is_programmed(stored: bytes, generation: int) -> bool:
    """Whether a stored status says that a generation is programmed."""
    conditions = _mapping(stored).get("conditions") or ()
    return any(
        one.get("type") == "Programmed" and one.get("status") == "True" and one.get("observedGeneration") == generation
        for one in conditions
    )


def faults(document: Document) -> list[Document]:
    """Return the conditions that report a fault, of the object, its listeners, its parents and its ancestors."""
    parts = [document, *(part for name in PARTS for part in document.get(name) or ())]
    faulty = [condition for part in parts for condition in part.get("conditions", ()) if _is_fault(condition)]
    return list({identity(condition): condition for condition in faulty}.values())


def stored_faults(stored: bytes) -> set[tuple[str, str, str]]:
    """Return the identities of the faults that a stored status reports."""
    return {identity(condition) for condition in faults(_mapping(stored))}


def identity(condition: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what makes two conditions one fault, so that it is published once."""
    return condition["type"], condition["reason"], condition["message"]


def _is_fault(condition: Mapping[str, Any]) -> bool:
    if condition["reason"] in TRANSIENT:
        return False
    bad = "True" if condition["type"] in NEGATIVE else "False"
    return bool(condition["status"] == bad)


def _timed(conditions: Iterable[Document], stored: Sequence[Document] | None, now: str) -> list[Document]:
    known = {condition.get("type"): condition for condition in stored or ()}
    return [_timed_condition(condition, known.get(condition["type"]), now) for condition in conditions]


def _timed_condition(condition: Document, known: Document | None, now: str) -> Document:
    same = known is not None and known.get("status") == condition["status"]
    since = known.get("lastTransitionTime") if same and known else None
    return {**condition, "lastTransitionTime": since or now}


def _timed_listener(listener: Document, stored: Sequence[Document] | None, now: str) -> Document:
    known = next((one for one in stored or () if one.get("name") == listener["name"]), {})
    return {**listener, "conditions": _timed(listener["conditions"], known.get("conditions"), now)}


def _timed_entry(ref: str, entry: Document, ours: Sequence[Document], now: str) -> Document:
    known = next((one for one in ours if one.get(ref) == entry[ref]), {})
    stored = known.get("conditions") or []
    others = [condition for condition in stored if condition.get("type") not in PARENT_CONDITIONS]
    return {**entry, "conditions": [*_timed(entry["conditions"], stored, now), *others]}


def _matches(stored: Document, desired: Document) -> bool:
    """Whether the stored status equals the desired one, leaving aside conditions of other controllers."""
    return all(_same(stored.get(name), value) for name, value in desired.items())


def _has_stale_count(stored: Document, desired: Document) -> bool:
    """Whether the stored status counts ListenerSets although none is left."""
    return bool(stored.get("attachedListenerSets")) and "attachedListenerSets" not in desired


def _same(found: Any, desired: Any) -> bool:  # noqa: ANN401 - any JSON
    if isinstance(desired, list) and desired and "conditions" in desired[0]:  # listeners, by name
        stored = {one.get("name"): one for one in found or ()}
        return stored.keys() == {one["name"] for one in desired} and all(
            _matches(stored[o["name"]], o) for o in desired
        )
    if isinstance(desired, list) and desired and "type" in desired[0] and "status" in desired[0]:  # conditions, by type
        stored = {one.get("type"): one for one in found or ()}
        stale = ONLY_TRUE.intersection(stored).difference(one["type"] for one in desired)
        return not stale and all(stored.get(one["type"]) == one for one in desired)
    return bool((found or None) == (desired or None))


def _plain(status: ir.Status) -> Document:
    document: Document = msgspec.json.decode(msgspec.json.encode(status))
    return document


def _mapping(stored: bytes) -> Document:
    document = msgspec.json.decode(stored) if stored else None
    return document if isinstance(document, dict) else {}
