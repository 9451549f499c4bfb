"""Status documents, fitted to what is stored.

In:   a desired status from translation, and the stored one.
Out:  the document to write, or None if the stored status equals it.
Pure; the time is an argument. A condition keeps its lastTransitionTime while its status stays
the same.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from varnish_gateway import api, ir
from varnish_gateway.ir.status import NEGATIVE, WITHHELD
from varnish_gateway.translate.conditions import KEYS_COPIED, UNSERVED_BACKENDS, WEIGHTED_BACKENDS, affected_type

Document = dict[str, Any]
IsOurs = Callable[[Document], bool]
Applied = ir.GatewayStatus | ir.GatewayClassStatus | ir.ListenerSetStatus | ir.InvalidationStatus

TRANSIENT = ("Pending", "AddressNotAssigned", "ParentNotProgrammed", "NotAccepted")
"""Reasons that resolve with time, or that another object or condition reports: no Event is published for them."""
AFFECTED = affected_type(api.VarnishCachePolicy.kind)
ONLY_TRUE = frozenset(
    {
        "InsecureFrontendValidationMode",
        "OverlappingTLSConfig",
        "UnsupportedFields",
        WITHHELD,
        KEYS_COPIED,
        UNSERVED_BACKENDS,
        AFFECTED,
    }
)
"""Conditions that we remove instead of setting them to False."""
MOST_CONDITIONS = 8
"""The API server rejects a whole status with more conditions of one part, those of others included."""
NOTICES = (
    AFFECTED,
    "OverlappingTLSConfig",
    "UnsupportedFields",
    WEIGHTED_BACKENDS,
    UNSERVED_BACKENDS,
    WITHHELD,
    KEYS_COPIED,
    "InsecureFrontendValidationMode",
    "PartiallyInvalid",
)
"""Conditions to leave out where those of other controllers leave no room for them, the least important first."""
PARENT_CONDITIONS = ("Accepted", "ResolvedRefs", "PartiallyInvalid", AFFECTED, WEIGHTED_BACKENDS)
"""Conditions that we own in the entry of a route's parent or a policy's ancestor; other controllers own the rest."""

ENDED = ("Complete", "Failed")
"""Phases of an invalidation that has ended."""
KEPT_TIMES = ("startedAt", "completedAt")
"""Times of an invalidation that stay as they were first written."""


class SharedList(NamedTuple):
    """The list of a status that all controllers write to, the field that names an entry's object, and the limit."""

    name: str
    ref: str
    limit: int


SHARED: Mapping[str, SharedList] = {
    api.HTTPRoute.kind: SharedList("parents", "parentRef", 32),
    api.BackendTLSPolicy.kind: SharedList("ancestors", "ancestorRef", 16),
    api.VarnishCachePolicy.kind: SharedList("ancestors", "ancestorRef", 16),
}
"""Kinds whose status is such a list."""
PARTS = ("listeners", *dict.fromkeys(shared.name for shared in SHARED.values()))
"""The parts of a status that have conditions of their own."""


def applied_status(desired: Applied, stored_status: bytes, now: str) -> Document | None:
    """Return the status of an object with one writer, such as a Gateway, for server-side apply."""
    stored = _mapping(stored_status)
    document = _plain(desired)
    if isinstance(desired, ir.InvalidationStatus) and _is_about(stored, desired):
        if stored.get("phase") in ENDED and desired.phase not in ENDED:
            return None  # a phase that has ended stays so, whichever operator comes later
        document |= {name: stored[name] for name in KEPT_TIMES if name in stored and name in document}
    timed = {**document, "conditions": _timed(document["conditions"], stored.get("conditions"), now)}
    if "listeners" in document:
        timed["listeners"] = [_timed_listener(one, stored.get("listeners"), now) for one in document["listeners"]]
    return None if _matches(stored, timed) and not _has_stale_count(stored, timed) else timed


def _is_about(stored: Document, desired: ir.InvalidationStatus) -> bool:
    """Whether a stored status is about the same version of the spec."""
    return bool(stored.get("observedGeneration") == desired.observed_generation)


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


def _timed(
    conditions: Sequence[Document],
    stored: Sequence[Document] | None,
    now: str,
    removable: Collection[str] = ONLY_TRUE,
) -> list[Document]:
    """Return the conditions to write. ``removable`` are those of ours that may be stored and not desired."""
    known = {condition.get("type"): condition for condition in stored or ()}
    others = known.keys() - set(removable) - {condition["type"] for condition in conditions}
    fitting = _fitting(conditions, MOST_CONDITIONS - len(others))
    return [_timed_condition(condition, known.get(condition["type"]), now) for condition in fitting]


def _fitting(conditions: Sequence[Document], room: int) -> list[Document]:
    """Return as many conditions as there is room for; only notices are left out."""
    notices = [one["type"] for one in conditions if one["type"] in NOTICES]
    surplus = max(0, len(conditions) - room)
    left_out = sorted(notices, key=NOTICES.index)[:surplus]
    return [one for one in conditions if one["type"] not in left_out]


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
    return {**entry, "conditions": [*_timed(entry["conditions"], stored, now, PARENT_CONDITIONS), *others]}


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
