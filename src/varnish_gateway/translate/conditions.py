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

from varnish_gateway.api.varnish import GROUP
from varnish_gateway.ir import Condition
from varnish_gateway.ir.status import WITHHELD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from varnish_gateway.api import Key


MESSAGE_LIMIT = 32768
"""The API server rejects a whole status if one of its messages is longer."""
LISTED = 1000
"""The most characters of a list in a message."""
SHOWN = 3
"""So many names of a list that changes often are in a message. It has no count, so that it seldom changes."""
KEYS_COPIED = f"{GROUP}/KeysCopied"
UNSERVED_BACKENDS = f"{GROUP}/UnservedBackends"
WEIGHTED_BACKENDS = f"{GROUP}/WeightedBackends"
"""Conditions of our own. They report no fault; translation omits them where they don't apply."""


def affected_type(kind: str) -> str:
    """Return the type of the condition of objects that policies of a kind have as their target."""
    return f"{GROUP}/{kind}Affected"


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


def keys_copied(secrets: Iterable[Key], gateway: Key, generation: int) -> Condition:
    """Return the condition of a ListenerSet whose private keys leave their namespaces."""
    names = listed(sorted(f"{secret.namespace}/{secret.name}" for secret in secrets), ", ")
    message = (
        f"the operator copies the private keys of these Secrets into the namespace {gateway.namespace} of the Gateway, "
        f"where users who may read Secrets can read them: {names}"
    )
    return Condition(KEYS_COPIED, "True", "GatewayInAnotherNamespace", clipped(message), generation)


def unserved_backends(message: str, generation: int) -> Condition:
    """Return the condition of a Gateway some of whose routes lead to Services that can't have endpoints."""
    message = f"requests to these backends get 503: {message}"
    return Condition(UNSERVED_BACKENDS, "True", "NoEndpoints", clipped(message), generation)


def unprogrammed(problem: Problem | None, generation: int) -> Condition:
    """Return Programmed, as far as it can be known before something is served."""
    if problem is None:
        return Condition("Programmed", "Unknown", "Pending", "Waiting for the data plane", generation)
    return Condition("Programmed", "False", problem.reason, clipped(problem.message), generation)


def withheld(message: str, generation: int) -> Condition:
    """Return the condition of a Gateway some of whose pods don't understand all of its configuration."""
    return Condition(WITHHELD, "True", "PodsOfAnotherVersion", clipped(message), generation)


def pending_regexes(generation: int) -> Condition:
    """Return Accepted of a route that is not served before its regular expressions are compiled."""
    message = "its regular expressions are being compiled; routes of namespaces that have used less time come first"
    return Condition("Accepted", "Unknown", "Pending", message, generation)


def pending_patterns(generation: int, *, is_attached: bool) -> Condition:
    """Return Accepted of a policy that isn't in force before its patterns are compiled."""
    message = (
        "its regular expressions and globs are being compiled; until then nothing is cached for its target"
        if is_attached
        else "its target is attached to no listener; its regular expressions and globs are compiled once it is"
    )
    return Condition("Accepted", "Unknown", "Pending", message, generation)


def policy_off(where: str, why: str, generation: int) -> Condition:
    """Return the condition of a cache policy that is off on some of its listeners."""
    return Condition("PartiallyInvalid", "True", "Invalid", clipped(f"nothing is cached on {where}: {why}"), generation)


def policy_affected(kind: str, policies: Sequence[tuple[Key, str]], generation: int) -> Condition:
    """Return the condition of an object that policies of a kind target: it as a whole, or the named sections of it."""
    texts = [f"{policy} ({section})" if section else str(policy) for policy, section in policies]
    return Condition(affected_type(kind), "True", "PolicyAffected", clipped(listed(texts, ", ")), generation)


def weighted_backends(where: str, generation: int) -> Condition:
    """Return the condition of a cache policy under which backends with weights share what is cached."""
    message = (
        "a response of one backend also answers requests that weights would give to another one, so shares of the "
        f"traffic differ from the weights: {where}; give such a rule a policy of its own, or don't cache it"
    )
    return Condition(WEIGHTED_BACKENDS, "True", "SharedByBackends", clipped(message), generation)


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


def listed(texts: Sequence[str], between: str = "; ", *, more: int = 0) -> str:
    """Return several texts as one; those that do not fit are counted, with ``more`` that are not given here."""
    ends = accumulate(len(text) + len(between) for text in texts)
    shown = max(1, sum(end <= LISTED for end in ends))
    left_out = max(0, len(texts) - shown) + max(0, more)
    rest = [f"and {left_out} more"] if left_out else []
    return between.join([*texts[:shown], *rest])


def first_of(texts: Sequence[str]) -> str:
    """Return the first texts as one; ``texts`` may end after SHOWN + 1."""
    return ", ".join([*texts[:SHOWN], *(["and more"] if len(texts) > SHOWN else [])])


def clipped(message: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return a message that is no longer than the limit, by default what the API server accepts."""
    return message if len(message) <= limit else message[: limit - 1] + "…"
