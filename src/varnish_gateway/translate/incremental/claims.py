"""Places that several claimants compete for, such as a port or the target of a policy.

In:   the places that each claimant claims, every claim with a rank.
Out:  the winner of each place: the claim of the lowest rank.
A new claim costs the same whatever the number of claims on its place. Withdrawing the winning
claim costs the number of claims on its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from varnish_gateway.api.meta import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from varnish_gateway.translate.incremental.dependency import Derived

Rank = tuple[int, str]
"""The lowest one wins."""


class Claim(NamedTuple):
    rank: Rank
    holder: Key
    family: str = ""  # claims of one family can share a place


class Claims:
    """``winners`` by place."""

    def __init__(self) -> None:
        self.winners: dict[Derived, Claim] = {}
        self._claims: dict[Derived, dict[Key, Claim]] = {}
        self._places: dict[Key, Mapping[Derived, Claim]] = {}

    def update(self, claimant: Key, places: Mapping[Derived, Claim]) -> Iterable[Derived]:
        """Replace everything that a claimant claims; return the places whose winner changed."""
        before = self._places.pop(claimant, {})
        if places:
            self._places[claimant] = places
        differing = [place for place in {**before, **places} if before.get(place) != places.get(place)]
        winners = {place: self.winners.get(place) for place in differing}
        for place in differing:
            if place in before:
                self._withdraw(claimant, place)
            if place in places:
                self._lodge(claimant, place, places[place])
        return [place for place, winner in winners.items() if self.winners.get(place) != winner]

    def _withdraw(self, claimant: Key, place: Derived) -> None:
        claims = self._claims[place]
        withdrawn = claims.pop(claimant)
        if not claims:
            del self._claims[place]
            del self.winners[place]
        elif withdrawn == self.winners[place]:
            self.winners[place] = min(claims.values())

    def _lodge(self, claimant: Key, place: Derived, claim: Claim) -> None:
        self._claims.setdefault(place, {})[claimant] = claim
        winner = self.winners.get(place)
        if winner is None or claim < winner:
            self.winners[place] = claim
