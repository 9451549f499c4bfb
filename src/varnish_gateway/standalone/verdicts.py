"""Describe statuses in words.

In:   the status of an object.
Out:  one line for the user, and the conditions that are not as they should be; only the first line
      of a long message.
Pure. Conditions that are not decided yet, such as Programmed, are no faults.
"""

from collections.abc import Iterator
from typing import NamedTuple

from varnish_gateway.api import Key
from varnish_gateway.ir import (
    Condition,
    GatewayStatus,
    InvalidationStatus,
    ListenerSetStatus,
    PolicyStatus,
    RouteStatus,
    Status,
)
from varnish_gateway.ir.status import NEGATIVE

_BAD_WHEN_TRUE = NEGATIVE - {"InsecureFrontendValidationMode"}
"""The user has chosen that mode in the same file: it doesn't make ``vgw translate`` fail."""


class UnmetCondition(NamedTuple):
    """A condition that is not as it should be, and the part of the object that it is about."""

    part: str
    condition: Condition

    def __str__(self) -> str:
        condition = self.condition
        state = "" if condition.type in _BAD_WHEN_TRUE else "not "
        part = f"{self.part}: " if self.part else ""
        first, *more = condition.message.split("\n")
        message = f": {first}{' …' if more else ''}" if first else ""
        return f"{part}{state}{condition.type} ({condition.reason}){message}"


def faults(status: Status) -> list[UnmetCondition]:
    """Return the conditions that the user has to look at, those of the whole object first."""
    found = [UnmetCondition(part, condition) for part, condition in _conditions(status) if _is_fault(condition)]
    # A listener that is not accepted is not programmed either, and the cause that keeps the Gateway from
    # being programmed also affects its listeners: report each cause once.
    rejected = {fault.part for fault in found if fault.condition.type != "Programmed"}
    of_whole = {(fault.condition.type, fault.condition.message) for fault in found if not fault.part}
    return [
        fault
        for fault in found
        if fault.condition.type != "Programmed"
        or (
            fault.part not in rejected
            and (not fault.part or (fault.condition.type, fault.condition.message) not in of_whole)
        )
    ]


def describe(key: Key, status: Status) -> str:
    """Return ``HTTPRoute default/cafe: Accepted, ResolvedRefs`` or what is wrong."""
    if found := faults(status):
        return f"{key}: {'; '.join(map(str, found))}"
    if isinstance(status, InvalidationStatus):
        return f"{key}: {status.phase}{_message(status)}"
    holding = dict.fromkeys(
        condition.type for part, condition in _conditions(status) if condition.status == "True" and _is_of_whole(part)
    )
    return f"{key}: {', '.join(holding) or 'waiting'}{_counted(status)}"


def _message(status: InvalidationStatus) -> str:
    messages = (condition.message for condition in status.conditions if condition.type != "Accepted")
    return "".join(f", {message}" for message in messages if message)


def _is_of_whole(part: str) -> bool:
    return not part.startswith("listener ")


def _counted(status: Status) -> str:
    if not isinstance(status, GatewayStatus | ListenerSetStatus):
        return ""
    listeners = ", ".join(f"{each.name} {each.attached_routes}" for each in status.listeners)
    return f"; routes by listener: {listeners}" if listeners else ""


def _is_fault(condition: Condition) -> bool:
    return condition.status == ("True" if condition.type in _BAD_WHEN_TRUE else "False")


def _conditions(status: Status) -> Iterator[tuple[str, Condition]]:
    """Yield every condition with the part of the object that it is about."""
    if isinstance(status, RouteStatus):
        several = len(status.parents) > 1
        for parent in status.parents:
            section = f"/{parent.parent_ref.section_name}" if parent.parent_ref.section_name else ""
            part = f"parent {parent.parent_ref.name}{section}" if several else ""
            yield from ((part, condition) for condition in parent.conditions)
        return
    if isinstance(status, PolicyStatus):
        several = len(status.ancestors) > 1
        for ancestor in status.ancestors:
            part = f"ancestor {ancestor.ancestor_ref.namespace}/{ancestor.ancestor_ref.name}" if several else ""
            yield from ((part, condition) for condition in ancestor.conditions)
        return
    yield from (("", condition) for condition in status.conditions)
    if isinstance(status, GatewayStatus | ListenerSetStatus):
        for listener in status.listeners:
            yield from ((f"listener {listener.name}", condition) for condition in listener.conditions)
