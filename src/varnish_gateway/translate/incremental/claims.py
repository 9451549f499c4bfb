"""Who has what several ask for: ports of one machine, ports and hostnames of one Gateway.

In:   who claims which places, each claim with a rank.
Out:  the winner of each place: the claim of the lowest rank.
A claim costs the same however many there are on its place; only one that goes and was the winner
costs the others there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from varnish_gateway.api import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Rank = tuple[int, str]
"""Age and namespace/name of the one who claims; the oldest wins, then the first by name."""


class Claim(NamedTuple):
    rank: Rank
    holder: Key
    family: str = ""  # of protocols that can share a port


class Claims:
    """``winners`` by place."""

    def __init__(self) -> None:
        self.winners: dict[Key, Claim] = {}
        self._claims: dict[Key, dict[Key, Claim]] = {}
        self._places: dict[Key, Mapping[Key, Claim]] = {}

    def claim(self, claimant: Key, places: Mapping[Key, Claim]) -> Iterable[Key]:
        """Take in all that somebody claims; return the places that have another winner now."""
        before = self._places.pop(claimant, {})
        if places:
            self._places[claimant] = places
        concerned = [place for place in {**before, **places} if before.get(place) != places.get(place)]
        touched = {place: self.winners.get(place) for place in concerned}
        for place in touched:
            if place in before:
                self._withdraw(claimant, place)
            if place in places:
                self._lodge(claimant, place, places[place])
        return [place for place, winner in touched.items() if self.winners.get(place) != winner]

    def _withdraw(self, claimant: Key, place: Key) -> None:
        claims = self._claims[place]
        gone = claims.pop(claimant)
        if not claims:
            del self._claims[place]
            del self.winners[place]
        elif gone == self.winners[place]:
            self.winners[place] = min(claims.values())

    def _lodge(self, claimant: Key, place: Key, claim: Claim) -> None:
        self._claims.setdefault(place, {})[claimant] = claim
        winner = self.winners.get(place)
        if winner is None or claim < winner:
            self.winners[place] = claim


def rank(created: int, key: Key) -> Rank:
    """Return the rank of a Gateway or ListenerSet. The specification compares namespace and name as one text."""
    return created, f"{key.namespace}/{key.name}"


def machine_port(port: int) -> Key:
    """Return a port of this machine, where several Gateways can ask for the same one."""
    return Key("port", "", str(port))


def gateway_port(gateway: Key, port: int) -> Key:
    """Return a port of a Gateway, where listeners of one family of protocols can be."""
    return Key("port of a Gateway", f"{gateway.namespace}/{gateway.name}", str(port))


def gateway_hostname(gateway: Key, port: int, protocol: str, hostname: str) -> Key:
    """Return the place of a listener among all those of a Gateway."""
    return Key("hostname of a Gateway", f"{gateway.namespace}/{gateway.name}", f"{protocol} {port} {hostname}")
