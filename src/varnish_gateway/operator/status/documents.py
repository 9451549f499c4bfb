"""Statuses as documents, made to fit what is stored already.

In:   a status from translation, and the stored one.
Out:  what to write, or None where the stored one says the same.
Pure; the time comes from outside. A condition keeps its lastTransitionTime as long as its
status stays.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from varnish_gateway import ir

Document = dict[str, Any]
IsOurs = Callable[[Document], bool]
Applied = ir.GatewayStatus | ir.GatewayClassStatus | ir.ListenerSetStatus

PASSING = ("Pending", "AddressNotAssigned", "ParentNotProgrammed")
"""Reasons that are a matter of time, or said elsewhere, not of something that is wrong."""
NEGATIVE = ("Conflicted", "InsecureFrontendValidationMode", "PartiallyInvalid")
"""Conditions that are bad when they are true. OverlappingTLSConfig is none: it is a hint, and all is served."""
ONLY_TRUE = frozenset({"InsecureFrontendValidationMode", "OverlappingTLSConfig"})
"""Conditions of ours that are not there when they don't hold."""
OF_PARENTS = ("Accepted", "ResolvedRefs", "PartiallyInvalid")
"""Conditions that we state of a route at one of its parents; what else is there is others'."""
NOTHING = ir.RouteStatus(())


def applied_status(wanted: Applied, stored: bytes, now: str) -> Document | None:
    """Return the status of a Gateway, a ListenerSet or a GatewayClass, for server-side apply."""
    live = _mapping(stored)
    document = _plain(wanted)
    timed = {**document, "conditions": _timed(document["conditions"], live.get("conditions"), now)}
    if "listeners" in document:
        timed["listeners"] = [_timed_listener(one, live.get("listeners"), now) for one in document["listeners"]]
    return None if _holds(live, timed) and not _has_left(live, timed) else timed


def route_status(wanted: ir.RouteStatus | None, stored: bytes, is_ours: IsOurs, now: str) -> Document | None:
    """Return the whole status of a route: others' entries as they are, then ours."""
    parents: list[Document] = _mapping(stored).get("parents") or []
    others = [entry for entry in parents if not is_ours(entry)]
    ours = [entry for entry in parents if is_ours(entry)]
    new = [_timed_parent(entry, ours, now) for entry in _plain(wanted or NOTHING)["parents"]]
    return None if new == ours else {"parents": [*others, *new]}


def is_waiting(wanted: ir.GatewayClassStatus, stored: bytes) -> bool:
    """Whether a class is still to be told that it waits for its operator: nobody said so of this generation.

    Once its operator has spoken there is nothing to add.
    """
    conditions = _mapping(stored).get("conditions") or ()
    accepted: Document = next((one for one in conditions if one.get("type") == "Accepted"), {})
    told_of = accepted.get("observedGeneration")
    return accepted.get("status", "Unknown") == "Unknown" and told_of != wanted.conditions[0].observed_generation


def faults(document: Document) -> list[Document]:
    """Return the conditions that say that something is wrong, of the object and of its parts."""
    parts = [document, *(document.get("listeners") or ()), *(document.get("parents") or ())]
    wrong = [condition for part in parts for condition in part.get("conditions", ()) if _is_wrong(condition)]
    return list({told(condition): condition for condition in wrong}.values())


def stored_faults(stored: bytes) -> set[tuple[str, str, str]]:
    """Return what a stored status says is wrong."""
    return {told(condition) for condition in faults(_mapping(stored))}


def told(condition: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what makes a condition the same news."""
    return condition["type"], condition["reason"], condition["message"]


def _is_wrong(condition: Mapping[str, Any]) -> bool:
    if condition["reason"] in PASSING:
        return False
    bad = "True" if condition["type"] in NEGATIVE else "False"
    return bool(condition["status"] == bad)


def _timed(conditions: Iterable[Document], live: Sequence[Document] | None, now: str) -> list[Document]:
    known = {condition.get("type"): condition for condition in live or ()}
    return [_timed_condition(condition, known.get(condition["type"]), now) for condition in conditions]


def _timed_condition(condition: Document, known: Document | None, now: str) -> Document:
    same = known is not None and known.get("status") == condition["status"]
    since = known.get("lastTransitionTime") if same and known else None
    return {**condition, "lastTransitionTime": since or now}


def _timed_listener(listener: Document, live: Sequence[Document] | None, now: str) -> Document:
    known = next((one for one in live or () if one.get("name") == listener["name"]), {})
    return {**listener, "conditions": _timed(listener["conditions"], known.get("conditions"), now)}


def _timed_parent(entry: Document, ours: Sequence[Document], now: str) -> Document:
    known = next((one for one in ours if one.get("parentRef") == entry["parentRef"]), {})
    live = known.get("conditions") or []
    others = [condition for condition in live if condition.get("type") not in OF_PARENTS]
    return {**entry, "conditions": [*_timed(entry["conditions"], live, now), *others]}


def _holds(live: Document, wanted: Document) -> bool:
    """Whether the stored status has all that is wanted, and no more of ours; conditions of others are theirs."""
    return all(_same(live.get(name), value) for name, value in wanted.items())


def _has_left(live: Document, wanted: Document) -> bool:
    """Whether the stored status counts ListenerSets, and there is none any more."""
    return bool(live.get("attachedListenerSets")) and "attachedListenerSets" not in wanted


def _same(live: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON
    if isinstance(wanted, list) and wanted and "conditions" in wanted[0]:  # listeners, by name
        stored = {one.get("name"): one for one in live or ()}
        return stored.keys() == {one["name"] for one in wanted} and all(_holds(stored[o["name"]], o) for o in wanted)
    if isinstance(wanted, list) and wanted and "type" in wanted[0] and "status" in wanted[0]:  # conditions, by type
        stored = {one.get("type"): one for one in live or ()}
        left = ONLY_TRUE.intersection(stored).difference(one["type"] for one in wanted)
        return not left and all(stored.get(one["type"]) == one for one in wanted)
    return bool((live or None) == (wanted or None))


def _plain(status: ir.Status) -> Document:
    document: Document = msgspec.json.decode(msgspec.json.encode(status))
    return document


def _mapping(stored: bytes) -> Document:
    document = msgspec.json.decode(stored) if stored else None
    return document if isinstance(document, dict) else {}
