"""Every condition that translation writes.

In:   the findings, as problems with a reason of the Gateway API and a message that
      says what to change.
Out:  ir.Condition.
Programmed is left Pending wherever something is to be served: see programmed.py.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway.ir import Condition

if TYPE_CHECKING:
    from collections.abc import Sequence


MESSAGE_LIMIT = 32768
"""The API server rejects a whole status if one of its messages is longer."""
LISTED = 1000
"""The most characters of a list in a message."""


class Problem(Struct, frozen=True):
    """Why something can't be done: a reason of the Gateway API, and a message for people."""

    reason: str
    message: str


def positive(type_: str, problem: Problem | None, generation: int, *, message: str = "") -> Condition:
    """Return a condition that is true, with its type as reason, unless there is a problem."""
    if problem is None:
        return Condition(type_, "True", type_, clipped(message), generation)
    return Condition(type_, "False", problem.reason, clipped(problem.message), generation)


def conflicted(problem: Problem | None, generation: int) -> Condition:
    """Return Conflicted, which is true when there is a problem."""
    if problem is None:
        return Condition("Conflicted", "False", "NoConflicts", "", generation)
    return Condition("Conflicted", "True", problem.reason, clipped(problem.message), generation)


def overlapping(port: int, hostname: str, generation: int) -> Condition:
    """Return the condition of a listener whose hostname overlaps with that of another one on its port."""
    message = (
        f"another listener on port {port} has a hostname that overlaps with this one's ({hostname}); a client that "
        "reuses a connection of one of them for a host of the other is answered with 421"
    )
    return Condition("OverlappingTLSConfig", "True", "OverlappingHostnames", message, generation)


def unprogrammed(problem: Problem | None, generation: int) -> Condition:
    """Return Programmed, as far as it can be known before something is served."""
    if problem is None:
        return Condition("Programmed", "Unknown", "Pending", "Waiting for the data plane", generation)
    return Condition("Programmed", "False", problem.reason, clipped(problem.message), generation)


def partially_invalid(problems: Sequence[Problem], generation: int) -> Condition:
    """Return the condition of a route some of whose rules can't be served."""
    message = "Dropped Rule(s), whose requests are answered with 500: " + joined(problems)
    return Condition("PartiallyInvalid", "True", problems[0].reason, clipped(message), generation)


def joined(problems: Sequence[Problem]) -> str:
    """Return the messages of several problems as one."""
    return listed([problem.message for problem in problems])


def summary(problems: Sequence[Problem]) -> Problem | None:
    """Return one problem for several: the first one's reason, everyone's message."""
    return Problem(problems[0].reason, joined(problems)) if problems else None


def listed(texts: Sequence[str], between: str = "; ") -> str:
    """Return several texts as one; those that do not fit are counted."""
    ends = accumulate(len(text) + len(between) for text in texts)
    shown = max(1, sum(end <= LISTED for end in ends))
    rest = [f"and {len(texts) - shown} more"] if len(texts) > shown else []
    return between.join([*texts[:shown], *rest])


def clipped(message: str) -> str:
    """Return a message of a length that the API server accepts."""
    return message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…"
