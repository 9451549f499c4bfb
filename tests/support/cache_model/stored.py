"""A stored response, and what it may be used for at a time (RFC 9111, section 4)."""

from dataclasses import dataclass

from support.cache_model import directives as cache_control
from support.cache_model.freshness import Exchange, initial_age, lifetime
from support.cache_model.messages import Request, Response
from support.cache_model.policy import Policy
from support.cache_model.spans import Span, exactly
from support.cache_model.storing import Windows, is_forced, windows


@dataclass(frozen=True)
class Stored:
    request: Request
    response: Response
    policy: Policy
    times: Exchange
    # Whether the gateway promises to have it. Where the RFC lets a cache choose, it may be absent.
    promised: bool = True
    # Whether an unsafe method requires its validation (section 4.4).
    invalidated: bool = False
    # Whether the origin failed when it was last asked: the cache may count as disconnected (section 2).
    failed: bool = False
    # The 304 that confirmed it last. Fields that only the first response has, such as its Age, may be out of date.
    confirmation: Response | None = None

    @property
    def directives(self) -> cache_control.Directives:
        return cache_control.speaking(self.response)

    @property
    def lifetime(self) -> Span:
        return lifetime(self.response, self.directives, self.policy, self.times) or exactly(0)

    @property
    def windows(self) -> Windows:
        return windows(self.response, self.directives, self.policy, self.times)

    def age(self, now: int) -> Span:
        """Return current_age (section 4.2.3)."""
        age = initial_age(self.response, self.times)
        if self.confirmation is not None:
            age = Span(min(age.low, initial_age(self.confirmation, self.times).low), age.high)
        return age + (now - self.times.received)

    def staleness(self, now: int) -> Span:
        return self.age(now).beyond(self.lifetime)

    def is_surely_fresh(self, now: int) -> bool:
        return self.lifetime.low > self.age(now).high

    def may_be_fresh(self, now: int) -> bool:
        return self.lifetime.high > self.age(now).low

    @property
    def needs_validation(self) -> bool:
        """Tell whether each use needs one (sections 4.4 and 5.2.2.4)."""
        forced = is_forced(self.response, self.policy)
        return self.invalidated or (self.directives.has_plain("no-cache") and not forced)

    def is_kept(self, now: int) -> bool:
        """Tell whether the policy promises to keep it for validations."""
        return self.staleness(now).high < self.policy.keep
