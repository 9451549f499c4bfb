"""ghost's decisions against a model of RFC 9111 that was written from its text."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from support.cache_decisions import DecisionCache
from support.cache_model.cache import FORWARD, GATEWAY_TIMEOUT, CacheModel, Move
from support.cache_model.freshness import Exchange
from support.cache_model.messages import Response
from support.cache_model.policy import Policy
from support.cache_model.preconditions import validators
from support.cache_model.reuse import Use
from support.cache_model.sequences import START, Event, dated, policies, sequences

SEQUENCES = 1000
MANY = 20_000


class Comparison:
    """The model and the decisions, side by side in one sequence."""

    def __init__(self, policy: Policy) -> None:
        self.model = CacheModel(policy)
        self.cache = DecisionCache(policy)
        self.now = START
        self.bodies = 0

    def run(self, event: Event) -> None:
        self.now += event.step
        request = dated(event.request, self.now)
        move = self.cache.move(request, self.now)
        assert move in self.model.moves(request, self.now)
        if move.use in {Use.REUSE, Use.REFRESH}:
            self.check_age(move)
        if move.use is not Use.REUSE and move != GATEWAY_TIMEOUT:
            self.forward(event, move)

    def check_age(self, move: Move) -> None:
        assert move.body is not None
        stored, entry = self.model.find(move.body), self.cache.find(move.body)
        assert stored is not None
        assert entry is not None
        age = stored.age(self.now)
        assert age.low // 1000 <= entry.object.age(self.now) <= age.high // 1000

    def forward(self, event: Event, move: Move) -> None:
        """Have the origin answer; ask again if its 304 speaks of another response."""
        request, requested = dated(event.request, self.now), self.now
        self.now += event.delay
        response = self.reply(event, move)
        times = Exchange(requested, self.now)
        allowed = self.model.answers(request, move, response, self.now)
        answer = self.cache.receive(request, move, response, times)
        self.model.settle(request, move, response, times)
        if move.use is not Use.REFRESH:
            assert answer in allowed if allowed else answer is None
        if answer is None and move.use is not Use.REFRESH:
            self.forward(event, FORWARD)

    def reply(self, event: Event, move: Move) -> Response:
        self.bodies += 1
        stored = self.model.find(move.body) if move.body else None
        if stored is not None and event.not_modified is not None and validators(stored.response):
            return dated(Response(status=304, headers=event.not_modified), self.now)
        return dated(replace(event.response, body=f"body-{self.bodies}"), self.now)


def compare(policy: Policy, events: list[Event]) -> None:
    comparison = Comparison(policy)
    for event in events:
        comparison.run(event)


@settings(max_examples=SEQUENCES)
@given(policies, sequences)
def test_decisions_are_what_the_rfc_allows(policy: Policy, events: list[Event]) -> None:
    compare(policy, events)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@settings(max_examples=MANY)
@given(policies, sequences)
def test_many_decisions_are_what_the_rfc_allows(policy: Policy, events: list[Event]) -> None:
    compare(policy, events)
