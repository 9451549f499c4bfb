"""A gateway and the model of RFC 9111, side by side.

In:   events of a sequence (support.cache_model.sequences).
Out:  AssertionError at the first difference.

What the gateway did follows from what the client and the origin saw. Real time passes between a
step of the clock and an answer, so steps have a fraction of a second that sums never make whole.
"""

import threading
from dataclasses import dataclass, replace

from support.cache_model.cache import FORWARD, GATEWAY_TIMEOUT, Answer, CacheModel, Move
from support.cache_model.freshness import Exchange
from support.cache_model.messages import Request, Response
from support.cache_model.policy import Policy
from support.cache_model.preconditions import validators
from support.cache_model.reuse import Use
from support.cache_model.sequences import Event, M, dated
from support.http import client
from support.http.planned_origin import PlannedOrigin
from support.varnish.ghost import GhostHarness
from support.varnish.stepped_clock import SteppedClock

FRACTION = 300
BACKGROUND_SECONDS = 2.0


@dataclass(frozen=True)
class Fetch:
    request: Request
    response: Response
    times: Exchange
    after_answer: bool


def as_documented(request: Request) -> Request:
    """Return a request as the gateway reads it, where docs/reference/http-caching.md says so."""
    return request.without("accept-encoding")


class GatewayComparison:
    def __init__(
        self, gateway: GhostHarness, origin: PlannedOrigin, clock: SteppedClock, policy: Policy, host: str
    ) -> None:
        self.model = CacheModel(policy)
        self._gateway, self._origin, self._clock, self._host = gateway, origin, clock, host
        self._fetches: list[Fetch] = []
        self._answered = threading.Event()
        self._asked = threading.Event()
        self._bodies = 0

    def run(self, event: Event) -> None:
        self._clock.advance(event.step + FRACTION if event.step else 0)
        now = self._clock.now
        asked = dated(event.request, now)
        request = as_documented(asked)
        allowed = self.model.moves(request, now)
        may_refresh = any(move.use is Use.REFRESH for move in allowed)
        answer = self._ask(asked, event, may_refresh=may_refresh)
        move = self._move(allowed, answer)
        forwarded = move == FORWARD and self._is_forwarded(request) and any(m.use is Use.VALIDATE for m in allowed)
        assert move in allowed or forwarded, f"{move} is not one of {set(allowed)}"
        if move.use in {Use.REUSE, Use.REFRESH}:
            self._check_age(move, answer, now)
        for fetch in self._fetches:
            self._check_fetch(request, move, fetch, answer)
            move = FORWARD if fetch.response.status == 304 else move

    def _ask(self, request: Request, event: Event, *, may_refresh: bool) -> client.Answer:
        self._fetches.clear()
        self._answered.clear()
        self._asked.clear()
        self._origin.planner = lambda received: self._plan(received, event, may_refresh=may_refresh)
        headers = self._local(request).headers
        answer = self._gateway.get(request.path, host=self._host, method=request.method, headers=headers)
        self._answered.set()
        if may_refresh:
            self._asked.wait(BACKGROUND_SECONDS)
        self._origin.idle()
        return answer

    def _plan(self, received: Request, event: Event, *, may_refresh: bool) -> Response:
        requested = self._clock.now
        self._asked.set()
        # A gateway that validates in the background has answered by now, or does so soon.
        after_answer = may_refresh and self._answered.wait(BACKGROUND_SECONDS / 4)
        self._clock.advance(event.delay)
        self._bodies += 1
        response = replace(event.response, body=f"body-{self._bodies}")
        conditional = received.has("if-none-match") or received.has("if-modified-since")
        if conditional and event.not_modified is not None and not self._fetches:
            response = Response(status=304, headers=event.not_modified)
        response = dated(response, self._clock.now)
        self._fetches.append(Fetch(received, response, Exchange(requested, self._clock.now), after_answer))
        return self._local(response)

    def _local(self, message: M) -> M:
        """Return a message with the host of this sequence."""
        lines = ((name, value.replace("cache.example", self._host)) for name, value in message.headers)
        return replace(message, headers=tuple(lines))

    def _move(self, allowed: frozenset[Move], answer: client.Answer) -> Move:
        """Return what the gateway did."""
        body = answer.header("x-body")
        if not self._fetches:
            # A stored 504 has the field that names its body.
            if body is None and answer.status == 504 and GATEWAY_TIMEOUT in allowed:
                return GATEWAY_TIMEOUT
            known = body or next((move.body for move in allowed if move.status == answer.status), None)
            return Move(Use.REUSE, known, answer.status) if known else Move(status=answer.status)
        if self._fetches[0].after_answer:
            return Move(Use.REFRESH, body, answer.status)
        asks = [move for move in allowed if move.use is Use.VALIDATE]
        named = [move for move in asks if self._validates(self._fetches[0].request, move)]
        # A request without a condition may be about any stored response, or about none; the answer tells.
        answered = [move for move in named if move.body == body]
        sent = self._fetches[0].request
        is_conditional = sent.has("if-none-match") or sent.has("if-modified-since")
        passes = [FORWARD] if FORWARD in allowed and not is_conditional else []
        return next(iter([*answered, *passes, *named]), FORWARD)

    def _validates(self, request: Request, move: Move) -> bool:
        """Tell whether a request asks about a stored response, with its validators if it has any."""
        stored = self.model.find(move.body or "")
        assert stored is not None
        expected = validators(stored.response)
        fields = {"If-None-Match": "etag", "If-Modified-Since": "last-modified"}
        sent = {name: request.combined(name) for name in fields if request.has(name)}
        own = all(sent[name] == stored.response.only(fields[name]) for name in sent)
        # varnishd validates responses with the status 200 only, and those that it still keeps.
        optional = stored.response.status != 200 or not stored.promised or not stored.is_kept(self._clock.now)
        return own and (sent.keys() >= expected.keys() or (not sent and optional))

    def _is_forwarded(self, request: Request) -> bool:
        """Tell whether the origin got the client's own conditions, which a cache may leave to it."""
        sent = self._fetches[0].request
        names = ("if-none-match", "if-modified-since")
        return [sent.combined(name) for name in names] == [request.combined(name) for name in names]

    def _check_age(self, move: Move, answer: client.Answer, now: int) -> None:
        stored = self.model.find(move.body or "")
        assert stored is not None
        age = stored.age(now)
        assert age.low // 1000 <= int(answer.header("age") or -1) <= age.high // 1000 + 1

    def _check_fetch(self, request: Request, move: Move, fetch: Fetch, answer: client.Answer) -> None:
        allowed = self.model.answers(request, move, fetch.response, fetch.times.received)
        self.model.settle(request, move, fetch.response, fetch.times)
        if move.use is Use.REFRESH or fetch is not self._fetches[-1]:
            return
        got = Answer(answer.header("x-body") or "", answer.status)
        assert got in allowed or got.body == "", f"{got} is not one of {set(allowed)}"
