"""The readiness of every Gateway, and when to probe its pods again.

In:   what a Gateway's pods reported and when, what they should serve, and its Service.
Out:  the newest Readiness to publish, whether it changed, and the delay before the next probe: short while
      pods are behind, long once they serve.
Pure; the time is an argument.

What is published neither follows every probe nor lags behind a lasting change. A Gateway that was programmed
stays so while its pods are behind for a moment: a reload, a restart of the operator. One that lost that has to
serve for a while before it is programmed again.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field, structs

from varnish_gateway.api import Key
from varnish_gateway.operator.status.readiness import Expected, Issues, Readiness, Reports, assess, troubles_of
from varnish_gateway.runtime.backoff import Backoff

CONFIRM_SECONDS = 0.5
"""A pod may recover from a problem by itself: it is published only if the next probe finds it too."""
FIRST_SECONDS, LAST_SECONDS, SERVING_SECONDS = 0.1, 2.0, 30.0
SILENT_SECONDS = 10.0
"""In place of LAST_SECONDS where a pod does not answer: each probe of it occupies a slot until its deadline."""
HOLD_SECONDS = 10.0
"""How long pods of a programmed Gateway may be behind, and troubles may last, before that is published."""
STABLE_SECONDS = 5.0
"""How long a Gateway that lost Programmed has to serve before it is programmed again."""


class ProbeOutcome(Struct, frozen=True):
    """``next_probe``: seconds until the next probe, None where there is no pod to ask."""

    has_changed: bool
    next_probe: float | None


class Situation(Struct, frozen=True):
    """What there is to assess. ``was_programmed``: the stored status says that this generation is programmed."""

    expected: Expected
    reports: Reports
    service: Mapping[str, Any] | None = None
    issues: Issues = Issues()
    was_programmed: bool = False


class _History(Struct):
    """Of one Gateway. Times are those of the first of several probes that found the same."""

    backoff: Backoff = field(default_factory=lambda: Backoff(FIRST_SECONDS, SILENT_SECONDS))
    is_unconfirmed: bool = False
    behind_since: float | None = None
    troubled_since: float | None = None
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
        history = self._histories.setdefault(gateway, _History())
        known = self.readiness.get(gateway)
        issues = self._with_troubles(history, situation, now, is_first=known is None)
        new = assess(situation.expected, situation.reports, situation.service, issues)
        was_serving = known.is_serving if known is not None else situation.was_programmed and history.is_first
        wait = _wait(history, new, situation, now, was_serving=was_serving, was_invalid=_is_invalid(known))
        if wait is not None:
            return ProbeOutcome(has_changed=False, next_probe=wait)
        if new.is_serving != was_serving:
            history.has_fallen = was_serving
        history.is_first = False
        self.readiness[gateway] = new
        reports = situation.reports
        return ProbeOutcome(new != known, _next_probe(history, new, reports) if reports else None)

    def hasten(self, gateway: Key) -> None:
        """Probe at short intervals again: something about the Gateway changed."""
        if (history := self._histories.get(gateway)) is not None:
            history.backoff.reset()

    def invalidate(self, gateway: Key) -> None:
        """Drop an assessment that says nothing about the Gateway's newest state."""
        self.readiness.pop(gateway, None)
        self._histories[gateway] = _History(is_first=False)

    def forget(self, gateway: Key) -> None:
        """Drop everything about a deleted Gateway."""
        self.readiness.pop(gateway, None)
        self._histories.pop(gateway, None)

    def _with_troubles(self, history: _History, situation: Situation, now: float, *, is_first: bool) -> Issues:
        """Add troubles of pods to the remarks once they last. What there is to say at first is said at once."""
        troubles = troubles_of(situation.reports)
        if not troubles:
            history.troubled_since = None
            return situation.issues
        if history.troubled_since is None:
            history.troubled_since = now - HOLD_SECONDS if is_first else now
        if now - history.troubled_since < HOLD_SECONDS:
            return situation.issues
        return structs.replace(situation.issues, remarks=(*situation.issues.remarks, *troubles))


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


def _next_probe(history: _History, readiness: Readiness, reports: Reports) -> float:
    if not readiness.is_serving:
        return _delay(history, reports)
    history.backoff.reset()
    is_well = history.troubled_since is None and not readiness.message
    return SERVING_SECONDS if is_well else SILENT_SECONDS


def _delay(history: _History, reports: Reports) -> float:
    are_silent = any(isinstance(report, str) for report in reports.values())
    return history.backoff.next(most=SILENT_SECONDS if are_silent else LAST_SECONDS)
