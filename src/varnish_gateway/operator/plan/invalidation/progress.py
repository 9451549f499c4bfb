"""How far one VarnishCacheInvalidation has come.

In:   the pods of its Gateway and their answers, with the time; its stored status, which an operator that starts
      goes on from.
Out:  the pods to send it to, and the status.
Pure: the time is an argument.

The phase ends once every pod is accounted for, and after END_SECONDS whatever happens. From then on it is still sent
to pods that did not answer, for they may serve what it means, and the phase becomes Complete once they are accounted
for.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from varnish_gateway import ir
from varnish_gateway.api import VarnishCacheInvalidation
from varnish_gateway.api.meta import timestamp
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.plan.invalidation.accounting import PodAccounts
from varnish_gateway.operator.status.answers import Answers, InvalidationAnswer
from varnish_gateway.translate.conditions import listed
from varnish_gateway.translate.durations import milliseconds
from varnish_gateway.translate.invalidation.request import PodRequest, RequestFault
from varnish_gateway.translate.invalidation.summary import Outline, conditions, without_paths

END_SECONDS = 60.0
"""After which the phase is Failed where pods did not answer."""
RETRY_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)
LATE_SECONDS = 30.0
"""How often a failed one is sent to pods that did not answer. A change of the pod is a reason to send it at once."""
DEFAULT_TTL = 3600.0

_status = msgspec.json.Decoder(ir.InvalidationStatus)


class Round(Struct, frozen=True):
    """What to send to which pods now. ``request`` is None while there is no Gateway."""

    obj: VarnishCacheInvalidation
    request: PodRequest | RequestFault | None
    pods: tuple[GatewayPod, ...] = ()
    token: str = ""


class RoundReport(Struct, frozen=True):
    """A round with the answers of its pods, and when they were complete, in seconds since 1970."""

    sent: Round
    answers: Answers
    at: float


class Progress:
    """Of one generation of the spec. ``status`` is what to write. ``has_begun``: there was a Gateway to send it to."""

    def __init__(self, obj: VarnishCacheInvalidation, stored: bytes) -> None:
        self.obj = obj
        # The time of an edited spec is not known.
        since = float(obj.created) if obj.metadata.generation <= 1 and obj.created else None
        self._accounts = PodAccounts(since)
        self._started: float | None = None
        self._completed: float | None = None
        self._rounds = 0
        self.has_begun = False
        self._outline = Outline("Pending", "Unknown", "Pending", "it was not sent to a pod yet")
        known = _known(stored, obj.metadata.generation)
        if known is not None:
            self._restore(known)
        self.status = known or self._current(())

    def _restore(self, known: ir.InvalidationStatus) -> None:
        self._accounts.results.update((one.pod_name, one) for one in known.pod_results)
        self._started, self._completed = _seconds(known.started_at), _seconds(known.completed_at)
        self.has_begun = known.started_at is not UNSET
        complete = next(one for one in known.conditions if one.type == "Complete")
        accepted = next((one for one in known.conditions if one.type == "Accepted"), None)
        fault = RequestFault(accepted.reason, accepted.message) if accepted and accepted.status == "False" else None
        restriction = next((one.message for one in known.conditions if one.type == "Restricted"), "")
        self._outline = Outline(known.phase, complete.status, complete.reason, complete.message, fault, restriction)
        if self.is_finished and self._completed is None:
            self._completed = float(self.obj.created)

    # -- what to do ----------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        """Whether the phase has ended."""
        return self._outline.phase in ("Complete", "Failed")

    @property
    def is_settled(self) -> bool:
        """Whether nothing is sent any more."""
        unanswered = any(one.reason == "Unanswered" for one in self._accounts.results.values())
        return self.is_finished and (self._outline.reason != "NotConfirmed" or not unanswered)

    @property
    def expiry(self) -> float | None:
        """When to delete the object; None before its end."""
        length = milliseconds(self.obj.spec.ttl, fractions=True)
        ttl = DEFAULT_TTL if length is None else length / 1000
        return None if self._completed is None or not self.is_finished else self._completed + ttl

    def to_send(self, pods: Iterable[GatewayPod]) -> tuple[GatewayPod, ...]:
        """Return the pods that have to carry it out yet."""
        needed = self._is_missed if self.is_settled else self._is_needed
        return tuple(pod for pod in self._accounts.open(pods) if needed(pod))

    def _is_needed(self, pod: GatewayPod) -> bool:
        return self._accounts.why_empty(pod) is None

    def _is_missed(self, pod: GatewayPod) -> bool:
        """Whether a pod was there before the end, but the watch of pods was late to report it."""
        is_late = pod.name not in self._accounts.results and self._outline.phase == "Complete"
        is_older = pod.started is not None and self._completed is not None and pod.started <= self._completed
        return is_late and is_older and self._is_needed(pod)

    # -- what has happened ---------------------------------------------------------------

    def update(self, sent: Round, answers: Answers, pods: Iterable[GatewayPod], at: float) -> float | None:
        """Account for a round with its answers; return after how many seconds the next one follows."""
        if not self.is_settled or answers:
            self._rounds += 1
            asked = set(answers) | self._accounts.results.keys()
            concerned = [pod for pod in pods if pod.name in asked or not self.is_settled]
            targets = self._advance(sent, answers, concerned, at)
            if self.is_finished and self._completed is None:
                self._completed = at
            self.status = self._current(targets)
        return self._next(at)

    def _advance(self, sent: Round, answers: Answers, pods: list[GatewayPod], at: float) -> tuple[str, ...]:
        self._started = at if self._started is None else self._started  # by one clock: that of the operators
        if sent.request is None:
            if at - self._started >= END_SECONDS:
                fault = RequestFault("GatewayNotFound", f"{self.obj.gateway} does not exist; correct gatewayRef")
                self._fail(fault)
            return ()
        self.has_begun = True
        if isinstance(sent.request, RequestFault):
            self._fail(sent.request)
            return ()
        for pod in self._accounts.open(pods):
            self._account(pod, sent.request.targets, answers.get(pod.name), at)
        self._accounts.on_pods((pod.name for pod in pods), at)
        self._conclude(sent.request, [pod.name for pod in self._accounts.open(pods)], at)
        return sent.request.targets

    def _fail(self, fault: RequestFault) -> None:
        self._outline = Outline("Failed", "False", fault.reason, fault.message, fault)

    def _account(self, pod: GatewayPod, targets: tuple[str, ...], answer: InvalidationAnswer | None, at: float) -> None:
        result = self._accounts.update(pod, len(targets), answer, at)
        if result is not None and result.reason == "Confirmed" and answer is not None:
            counts = zip(targets, answer.objects or (), strict=True)
            paths = tuple(ir.PathResult(path, True, count) for path, count in counts)
            self._accounts.results[pod.name] = structs.replace(result, path_results=paths)

    def _conclude(self, request: PodRequest, open_pods: list[str], at: float) -> None:
        rejection = self._accounts.rejection
        restriction, pods = request.restriction, listed(open_pods, ", ")
        if rejection is not None:
            fault = RequestFault("Invalid", rejection)
            self._outline = Outline("Failed", "False", "Invalid", rejection, fault, restriction)
        elif not open_pods:
            self._outline = Outline("Complete", "True", "Complete", str(self._accounts), restriction=restriction)
        elif self.is_finished or at - (self._started or 0.0) >= END_SECONDS:
            message = f"not confirmed by {pods}; it is sent to them until they confirm or are gone"
            self._outline = Outline("Failed", "False", "NotConfirmed", message, restriction=restriction)
        else:
            message = f"not confirmed yet by {pods}"
            self._outline = Outline("InProgress", "Unknown", "InProgress", message, restriction=restriction)

    def _next(self, at: float) -> float | None:
        expiry = self.expiry
        later = None if expiry is None else max(0.0, expiry - at)
        if self.is_settled:
            return later
        retry = LATE_SECONDS if self.is_finished else RETRY_SECONDS[min(self._rounds, len(RETRY_SECONDS)) - 1]
        return retry if later is None else min(retry, later)

    def _current(self, targets: tuple[str, ...]) -> ir.InvalidationStatus:
        generation = self.obj.metadata.generation
        return ir.InvalidationStatus(
            phase=self._outline.phase,
            observed_generation=generation,
            conditions=conditions(self._outline, generation),
            objects=self._accounts.objects,
            started_at=self._stamp(self._started),
            completed_at=self._stamp(self._completed),
            pod_results=without_paths(self._accounts.results.values(), targets),
        )

    def _stamp(self, at: float | None) -> str | UnsetType:
        """Return a time of the status. Without a Gateway there is none: the operators of all classes write the same."""
        return UNSET if at is None or not self.has_begun else timestamp(at)


def is_begun(stored: bytes, generation: int) -> bool:
    """Whether a stored status says that this generation was begun."""
    known = _known(stored, generation)
    return known is not None and known.started_at is not UNSET


def _known(stored: bytes, generation: int) -> ir.InvalidationStatus | None:
    """Return a stored status that is about this generation and that we wrote."""
    try:
        status = _status.decode(stored)
    except (msgspec.MsgspecError, RecursionError):
        return None
    is_whole = any(one.type == "Complete" for one in status.conditions)
    return status if status.observed_generation == generation and is_whole else None


def _seconds(stored: str | UnsetType) -> float | None:
    try:
        return None if stored is UNSET else datetime.fromisoformat(stored).timestamp()
    except ValueError:
        return None
