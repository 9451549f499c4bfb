"""A cache made of ghost's decisions, without varnishd.

In:   requests, responses of an origin, and times.
Out:  what the gateway would do, in the terms of the model (support.cache_model).
"""

from dataclasses import dataclass, replace

from msgspec import json

from support.cache_model.cache import ERRORS, FORWARD, GATEWAY_TIMEOUT, Answer, Move
from support.cache_model.freshness import Exchange
from support.cache_model.messages import Message, Request, Response
from support.cache_model.policy import Policy
from support.cache_model.reuse import Use
from varnish_gateway import _ghost

_USES = {"hit": Use.REUSE, "refresh": Use.REFRESH, "validate": Use.VALIDATE}


@dataclass(frozen=True)
class Entry:
    request: Request
    response: Response
    object: _ghost.CacheObject


class DecisionCache:
    def __init__(self, policy: Policy) -> None:
        self._decisions = _ghost.CacheDecisions(json.encode(policy.document()))
        # The most recent first.
        self._entries: list[Entry] = []

    def find(self, body: str) -> Entry | None:
        return next((entry for entry in self._entries if entry.response.body == body), None)

    def move(self, request: Request, now: int) -> Move:
        """Return what happens to a request before the origin is asked."""
        lines = _lines(request)
        if self._decisions.bypass(request.method, lines):
            return FORWARD
        entry = next((entry for entry in self._entries if self._fits(entry, request)), None)
        kind, _ = self._decisions.lookup(entry and entry.object, lines, now)
        if kind == "timeout":
            return GATEWAY_TIMEOUT
        if entry is None:
            return FORWARD
        use = _USES[kind]
        return Move(use, entry.response.body, None if use is Use.VALIDATE else entry.object.answer(lines))

    def receive(self, request: Request, move: Move, response: Response, times: Exchange) -> Answer | None:
        """Return what the client gets; None if the origin has to be asked again."""
        entry = self.find(move.body) if move.body else None
        lines = _lines(request)
        if entry and response.status == 304:
            fresh = entry.object.freshened(_lines(response))
            self._entries.remove(entry)
            if fresh is None:
                return None
            headers = tuple((name, value.decode("latin-1")) for name, value in fresh)
            original = replace(request, headers=entry.request.headers)
            return self._store(original, replace(entry.response, headers=headers), times, request)
        background = move.use is Use.REFRESH
        if entry and response.status in ERRORS and entry.object.answers_error(background, times.received):
            return Answer(entry.response.body, entry.object.answer(lines))
        if self._decisions.bypass(request.method, lines):
            self._invalidate(request, response)
            return Answer(response.body, response.status)
        return self._store(request, response, times, request)

    def _store(self, request: Request, response: Response, times: Exchange, asked: Request) -> Answer:
        made, _ = self._decisions.store(
            ("GET" if request.method == "HEAD" else request.method, _lines(request)),
            (response.status, _lines(response)),
            (times.requested, times.received),
        )
        if made is None:
            return Answer(response.body, response.status)
        self._entries = [entry for entry in self._entries if not self._fits(entry, request)]
        self._entries.insert(0, Entry(request, response, made))
        return Answer(response.body, made.answer(_lines(asked)))

    def _fits(self, entry: Entry, request: Request) -> bool:
        return entry.request.path == request.path and self._decisions.fits(entry.object, _lines(request))

    def _invalidate(self, request: Request, response: Response) -> None:
        target = ("cache.example", request.path)
        paths = _ghost.invalidated_paths(request.method, target, (response.status, _lines(response)))
        self._entries = [entry for entry in self._entries if entry.request.path not in paths]


def _lines(message: Message) -> list[tuple[str, bytes]]:
    return [(name, value.encode("latin-1")) for name, value in message.headers]
