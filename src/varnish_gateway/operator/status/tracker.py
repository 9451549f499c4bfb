"""The readiness of every Gateway, and when to probe its pods again.

In:   what a Gateway's pods reported and when, what they should serve, and its Service.
Out:  the newest Readiness to publish, whether it changed, and the delay before the next probe: short while
      pods are behind, long once they serve.
Pure; the time is an argument.

What is published neither follows every probe nor lags behind a lasting change. A Gateway that was programmed
stays so while its pods are behind for a moment: a reload, a restart of the operator. One that lost that has to
serve for a while before it is programmed again. A socket of a ListenerSet that was open stays so likewise: a new pod
may be ready before it has opened it.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field, structs

from varnish_gateway.api import Key
from varnish_gateway.operator.status.readiness import (
    Expected,
    Issues,
    Readiness,
    Reports,
    assess,
    open_sockets,
    troubles_of,
    unserved_of,
)
from varnish_gateway.runtime.backoff import Backoff

CONFIRM_SECONDS = 0.5
"""A pod may recover from a problem by itself: it is published only if the next probe finds it too."""
FIRST_SECONDS, LAST_SECONDS, SERVING_SECONDS = 0.1, 2.0, 30.0
SILENT_SECONDS = 10.0
"""In place of LAST_SECONDS where a pod does not answer: each probe of it occupies a slot until its deadline."""
HOLD_SECONDS = 10.0
"""How long pods of a programmed Gateway may be behind, a ListenerSet's socket may be closed again, and remarks of pods
may last, before that is published."""
FIRST_STARTING_SECONDS = 1.0
"""Until the operator asks a pod that starts again what it understands. The delays grow up to SILENT_SECONDS."""
STABLE_SECONDS = 5.0
"""How long a Gateway that lost Programmed has to serve before it is programmed again."""


class ProbeOutcome(Struct, frozen=True):
    """``next_probe``: seconds until the next probe, None where there is no pod to ask."""

    has_changed: bool
    next_probe: float | None


class Situation(Struct, frozen=True):
    """What there is to assess. ``was_programmed``: the stored status says that this generation is programmed.

    ``has_unreported``: a pod that isn't ready yet did not answer.
    """

    expected: Expected
    reports: Reports
    service: Mapping[str, Any] | None = None
    issues: Issues = Issues()
    was_programmed: bool = False
    has_unreported: bool = False


class _Lasting(Struct):
    """A remark of pods and when it began.

    The operator publishes it after HOLD_SECONDS, or at once on its first probe.
    """

    since: float | None = None

    def counts(self, now: float, *, is_there: bool, is_first: bool) -> bool:
        if not is_there:
            self.since = None
            return False
        if self.since is None:
            self.since = now - HOLD_SECONDS if is_first else now
        return now - self.since >= HOLD_SECONDS


class _History(Struct):
    """Of one Gateway. Times are those of the first of several probes that found the same."""

    backoff: Backoff = field(default_factory=lambda: Backoff(FIRST_SECONDS, SILENT_SECONDS))
    starting_backoff: Backoff = field(default_factory=lambda: Backoff(FIRST_STARTING_SECONDS, SILENT_SECONDS))
    opening_backoff: Backoff = field(default_factory=lambda: Backoff(FIRST_SECONDS, SILENT_SECONDS))
    closed_since: dict[str, float] = field(default_factory=dict)  # sockets that were published as open
    is_unconfirmed: bool = False
    behind_since: float | None = None
    troubles: _Lasting = field(default_factory=_Lasting)
    unserved: _Lasting = field(default_factory=_Lasting)
    good_since: float | None = None
    has_fallen: bool = False
    is_first: bool = True  # the operator has not looked at this Gateway before


class ReadinessTracker:
    """``readiness`` holds what to publish by Gateway; a Gateway without one was not probed yet."""

    def __init__(self) -> None:
        self.readiness: dict[Key, Readiness] = {}
        self._histories: dict[Key, _History] = {}

    def on_reports(self, gateway: Key, situation: Situation, now: float) -> ProbeOutcome:
        """Assess what pods reported at a time."""
        outcome = self._assess(gateway, situation, now)
        backoff = self._histories[gateway].starting_backoff
        if not situation.has_unreported:
            backoff.reset()
            return outcome
        soon = backoff.next(most=SILENT_SECONDS)
        return structs.replace(outcome, next_probe=min(soon, outcome.next_probe or soon))

    def _assess(self, gateway: Key, situation: Situation, now: float) -> ProbeOutcome:
        history = self._histories.setdefault(gateway, _History())
        known = self.readiness.get(gateway)
        new = _assessed(history, situation, now, is_first=known is None)
        new = _with_held_sockets(history, known, new, situation.expected, now)
        was_serving = known.is_serving if known is not None else situation.was_programmed and history.is_first
        wait = _wait(history, new, situation, now, was_serving=was_serving, was_invalid=_is_invalid(known))
        if wait is not None:
            return ProbeOutcome(has_changed=False, next_probe=wait)
        if new.is_serving != was_serving:
            history.has_fallen = was_serving
        history.is_first = False
        self.readiness[gateway] = new
        return ProbeOutcome(new != known, _next_probe(history, new, situation) if situation.reports else None)

    def hasten(self, gateway: Key) -> None:
        """Probe at short intervals again: something about the Gateway changed."""
        if (history := self._histories.get(gateway)) is not None:
            history.backoff.reset()
            history.opening_backoff.reset()

    def invalidate(self, gateway: Key) -> None:
        """Drop an assessment that says nothing about the Gateway's newest state."""
        self.readiness.pop(gateway, None)
        self._histories[gateway] = _History(is_first=False)

    def forget(self, gateway: Key) -> None:
        """Drop everything about a deleted Gateway."""
        self.readiness.pop(gateway, None)
        self._histories.pop(gateway, None)


def _assessed(history: _History, situation: Situation, now: float, *, is_first: bool) -> Readiness:
    """Assess what pods report, with what they remark once that lasts."""
    reports, issues = situation.reports, situation.issues
    troubles, unserved = troubles_of(reports), unserved_of(reports)
    if history.troubles.counts(now, is_there=bool(troubles), is_first=is_first):
        issues = structs.replace(issues, remarks=(*issues.remarks, *troubles))
    new = assess(situation.expected, reports, situation.service, issues)
    if history.unserved.counts(now, is_there=bool(unserved), is_first=is_first):
        new = structs.replace(new, unserved=unserved)
    return new


def _with_held_sockets(
    history: _History, known: Readiness | None, new: Readiness, expected: Expected, now: float
) -> Readiness:
    """Leave sockets of ListenerSets open that were published as such, until they have been closed for a while."""
    before = known.open_sockets if known is not None else frozenset()
    closed = (before & expected.set_sockets) - new.open_sockets
    history.closed_since = {socket: history.closed_since.get(socket, now) for socket in closed}
    held = {socket for socket, since in history.closed_since.items() if now - since < HOLD_SECONDS}
    return structs.replace(new, open_sockets=new.open_sockets | held) if held else new


def _is_invalid(readiness: Readiness | None) -> bool:
    return readiness is not None and readiness.reason == "Invalid"


def _wait(  # noqa: PLR0913 - what the decision depends on, by name
    history: _History, new: Readiness, situation: Situation, now: float, *, was_serving: bool, was_invalid: bool
) -> float | None:
    """Return the seconds until the next probe has to confirm a new assessment; None to publish it now."""
    was_unconfirmed, history.is_unconfirmed = history.is_unconfirmed, False
    if new.is_serving:
        history.behind_since = None
        history.good_since = now if history.good_since is None else history.good_since
        is_stable = was_serving or not history.has_fallen or now - history.good_since >= STABLE_SECONDS
        return None if is_stable else LAST_SECONDS
    history.good_since = None
    history.behind_since = now if history.behind_since is None else history.behind_since
    if situation.issues.faults or not situation.reports:
        return None
    if new.reason == "Invalid":
        history.is_unconfirmed = not was_unconfirmed and not was_invalid
        return CONFIRM_SECONDS if history.is_unconfirmed else None
    is_held = was_serving and now - history.behind_since < HOLD_SECONDS
    return _delay(history, situation.reports) if is_held else None


def _next_probe(history: _History, readiness: Readiness, situation: Situation) -> float:
    if not readiness.is_serving:
        return _delay(history, situation.reports)
    history.backoff.reset()
    is_well = history.troubles.since is None and not readiness.message and not readiness.deferred_sockets
    is_well = is_well and (history.unserved.since is None or bool(readiness.unserved))
    wait = SERVING_SECONDS if is_well else SILENT_SECONDS
    if situation.expected.set_sockets <= open_sockets(situation.reports):
        history.opening_backoff.reset()
        return wait
    return history.opening_backoff.next(most=SILENT_SECONDS)  # pods open it in a moment, most of the time


def _delay(history: _History, reports: Reports) -> float:
    are_silent = any(isinstance(report, str) for report in reports.values())
    return history.backoff.next(most=SILENT_SECONDS if are_silent else LAST_SECONDS)
