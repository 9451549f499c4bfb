"""A shared cache under a policy, as RFC 9111 describes it.

In:   requests at times, and what origins answer.
Out:  the moves that are allowed for a request, and the answers that are allowed after the origin
      was asked. Time is in milliseconds since 1970.

The model knows what may be stored, not what is: a response that the gateway doesn't promise to
have may also be absent. ``settle`` is told what the gateway did.
"""

from dataclasses import dataclass, replace
from urllib.parse import urljoin, urlsplit

from support.cache_model.freshness import Exchange
from support.cache_model.messages import Request, Response
from support.cache_model.policy import Policy
from support.cache_model.preconditions import identifies, is_outdated_by, statuses, updated
from support.cache_model.reuse import Use, uses, wanted
from support.cache_model.stored import Stored
from support.cache_model.storing import prohibition
from support.cache_model.vary import Fit, fit

SAFE_METHODS = {"GET", "HEAD", "OPTIONS", "TRACE", "QUERY"}
# RFC 5861, section 4. A connection that fails counts as one of them.
ERRORS = {500, 502, 503, 504}
ORIGIN = "http://cache.example"


@dataclass(frozen=True)
class Move:
    """What a cache does with a request.

    ``use`` is None if it forwards the request on no stored response's behalf, and ``status`` is
    504 if it answers only-if-cached.
    """

    use: Use | None = None
    body: str | None = None
    status: int | None = None


@dataclass(frozen=True)
class Answer:
    """What a client gets after the origin was asked: the origin's response, or a stored one."""

    body: str
    status: int


GATEWAY_TIMEOUT = Move(status=504)
FORWARD = Move()


class CacheModel:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        # The most recent first.
        self._stored: list[Stored] = []

    def find(self, body: str) -> Stored | None:
        return next((stored for stored in self._stored if stored.response.body == body), None)

    def moves(self, request: Request, now: int) -> frozenset[Move]:
        """Return what the cache may do with a request."""
        # Unsafe requests are written through (section 4), whatever they ask of a cache.
        if request.method not in SAFE_METHODS:
            return frozenset({FORWARD})
        is_get = request.method in {"GET", "HEAD"}
        found = self._found(request, now) if is_get else {FORWARD}
        if _is_for_the_origin(request):
            found.add(FORWARD)
        if not wanted(request).has("only-if-cached"):
            return frozenset(found)
        # A cache need not answer 504 (section 5.2.1.7): it may forward what isn't for a cache.
        if _is_for_the_origin(request) or not is_get:
            return frozenset({*found, GATEWAY_TIMEOUT})
        asks = {move for move in found if move.use in {None, Use.VALIDATE}}
        return frozenset((found - asks) | ({GATEWAY_TIMEOUT} if asks else set()))

    def _found(self, request: Request, now: int) -> set[Move]:
        found: set[Move] = set()
        for stored, fits in self._candidates(request):
            found |= _moves(stored, request, now)
            if stored.promised and fits is Fit.YES and stored.is_kept(now):
                break
        else:
            found.add(FORWARD)
        return found

    def answers(self, request: Request, move: Move, response: Response, now: int) -> frozenset[Answer]:
        """Return what a client may get. An empty set means that the cache has to ask again."""
        stored = self.find(move.body) if move.body else None
        if response.status == 304 and stored is not None:
            if not identifies(response, stored.response):
                return frozenset()
            fresh = updated(stored.response, response)
            return frozenset(Answer(fresh.body, status) for status in statuses(request, fresh, now) | {fresh.status})
        allowed = statuses(request, response, now) | {response.status}
        forwarded = frozenset(Answer(response.body, status) for status in allowed)
        if response.status not in ERRORS or stored is None:
            return forwarded
        instead = frozenset(Answer(stored.response.body, status) for status in _statuses(stored, request))
        may, must = _answers_error(stored, now)
        return instead if must else forwarded | (instead if may else frozenset())

    def settle(self, request: Request, move: Move, response: Response, times: Exchange) -> None:
        """Note what an origin answered to a request that was forwarded."""
        if request.method not in SAFE_METHODS:
            self._invalidate(request, response)
        if request.method not in {"GET", "HEAD"}:
            return
        stored = self.find(move.body) if move.body else None
        if response.status == 304 and stored is not None:
            self._freshen(stored, request, response, times)
        elif response.status in ERRORS and stored is not None:
            # A stored response may have answered, and the error be forgotten; or the error has its place.
            as_get = replace(request, method="GET")
            is_storable = prohibition(as_get, response, self._policy, times) is None
            self._replace(stored, replace(stored, failed=True, promised=stored.promised and not is_storable))
            self._insert(request, response, times, promised=False)
        else:
            self._doubt(request)
            self._insert(request, response, times, promised=not _is_for_the_origin(request))

    def settle_head(self, request: Request, response: Response) -> None:
        """Note a response to HEAD (section 4.3.5)."""
        for stored, _ in self._candidates(request):
            if response.status == 200 and is_outdated_by(stored.response, response):
                self._replace(stored, replace(stored, invalidated=True, promised=False))

    def _candidates(self, request: Request) -> list[tuple[Stored, Fit]]:
        same = [stored for stored in self._stored if stored.request.path == request.path]
        fits = [(stored, fit(stored.request, stored.response, request)) for stored in same]
        return [(stored, found) for stored, found in fits if found is not Fit.NO]

    def _insert(self, request: Request, response: Response, times: Exchange, *, promised: bool) -> None:
        as_get = replace(request, method="GET")
        if prohibition(as_get, response, self._policy, times) is None:
            self._add(Stored(as_get, response, self._policy, times, promised))

    def _add(self, new: Stored) -> None:
        kept = new.promised and new.is_surely_fresh(new.times.received) and not new.needs_validation
        if kept and fit(new.request, new.response, new.request) is Fit.YES:
            superseded = [old for old, fits in self._candidates(new.request) if fits is Fit.YES]
            self._stored = [stored for stored in self._stored if stored not in superseded]
        self._stored.insert(0, replace(new, promised=kept))

    def _freshen(self, stored: Stored, request: Request, response: Response, times: Exchange) -> None:
        if not identifies(response, stored.response):
            self._doubt(request)
            return
        self._stored.remove(stored)
        fresh = updated(stored.response, response)
        if prohibition(stored.request, fresh, self._policy, times) is None:
            # A request with Authorization, for one, may cost the cache what it had.
            promised = prohibition(replace(request, method="GET"), fresh, self._policy, times) is None
            self._add(Stored(stored.request, fresh, self._policy, times, promised, confirmation=response))

    def _doubt(self, request: Request) -> None:
        """Expect that stored responses are gone which the origin did not confirm."""
        for stored, _ in self._candidates(request):
            self._replace(stored, replace(stored, promised=False))

    def _invalidate(self, request: Request, response: Response) -> None:
        """Section 4.4: the target, and what Location and Content-Location name of the same origin."""
        if not 200 <= response.status < 400:
            return
        base = urljoin(ORIGIN, request.path)
        named = [response.only("location"), response.only("content-location")]
        split = [urlsplit(urljoin(base, name)) for name in named if name is not None]
        own = [found.path for found in split if f"{found.scheme}://{found.netloc}" == ORIGIN]
        for stored in [stored for stored in self._stored if stored.request.path in {request.path, *own}]:
            self._replace(stored, replace(stored, invalidated=True, promised=False))

    def _replace(self, old: Stored, new: Stored) -> None:
        self._stored[self._stored.index(old)] = new


def _moves(stored: Stored, request: Request, now: int) -> set[Move]:
    found: set[Move] = set()
    for use in uses(stored, request, now):
        if use is Use.VALIDATE:
            found.add(Move(use, stored.response.body))
        else:
            found |= {Move(use, stored.response.body, status) for status in _statuses(stored, request)}
    return found


def _is_for_the_origin(request: Request) -> bool:
    """Tell whether only an origin can evaluate a precondition (section 4.3.2)."""
    return request.has("if-match") or request.has("if-unmodified-since")


def _statuses(stored: Stored, request: Request) -> frozenset[int]:
    return statuses(request, stored.response, stored.times.received)


def _answers_error(stored: Stored, now: int) -> tuple[bool, bool]:
    """Tell whether a stored response may, and whether it has to, answer in place of an error.

    A response that is fresh may: the client, not the origin, asked for the validation. An error
    that was stored is no better than a new one. A window in the request (RFC 5861, section 4)
    doesn't count: what follows an error is the same for all clients.
    """
    if stored.needs_validation:
        return False, False
    window = stored.windows.if_error
    staleness = stored.staleness(now)
    in_window = window.high > 0 and staleness.low <= window.high
    may = stored.may_be_fresh(now) or in_window
    useful = stored.promised and stored.response.status < 500
    must = useful and not stored.may_be_fresh(now) and staleness.high < window.low
    return may, must
