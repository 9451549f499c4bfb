"""The condition Accepted of a Gateway or ListenerSet, which depends on its listeners.

In:   the listeners of one Gateway or ListenerSet, and what else stands against it.
Out:  the condition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway.ir import Condition
from varnish_gateway.translate.conditions import Problem, listed, positive

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from varnish_gateway.translate.listener import ValidatedListener


def none_served(listeners: Collection[ValidatedListener]) -> Problem | None:
    """Return a problem where no listener can be served."""
    unserved = _unserved(listeners)
    if len(unserved) < len(listeners):
        return None
    return Problem("ListenersNotValid", f"no listener can be served, see their conditions: {names(unserved)}")


def acceptance(rejected: Problem | None, listeners: Collection[ValidatedListener], generation: int) -> Condition:
    """Return Accepted. Its message names the listeners that can't be served."""
    unserved = _unserved(listeners)
    if rejected is not None or not unserved:
        return positive("Accepted", rejected, generation)
    message = f"not served, see their conditions: {names(unserved)}"
    return Condition("Accepted", "True", "ListenersNotValid", message, generation)


def names(listeners: Collection[ValidatedListener]) -> str:
    """Return the names of listeners, for people."""
    return listed([listener.name for listener in listeners], ", ") or "there is none"


def _unserved(listeners: Iterable[ValidatedListener]) -> list[ValidatedListener]:
    return [listener for listener in listeners if not listener.is_served]
