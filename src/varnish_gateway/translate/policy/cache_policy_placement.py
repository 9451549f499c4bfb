"""Place VarnishCachePolicies on Gateways.

In:   a validated policy.
Out:  the Gateways that it is about. Its patterns take part of what its namespace has there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway.translate.incremental.dependency import Table
from varnish_gateway.translate.incremental.quotas import Charge
from varnish_gateway.translate.layers import Layer
from varnish_gateway.translate.policy import attachment, cache_patterns
from varnish_gateway.translate.policy.cache_policy import KIND, VALIDATED
from varnish_gateway.translate.policy.placement import Placement, place
from varnish_gateway.translate.precedence import precedence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from varnish_gateway.api import Key
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.options import Options


class PlacedCachePolicy(Struct, frozen=True):
    """``charges`` are what its patterns take on each Gateway that has it."""

    placement: Placement
    created: int = 0
    charges: Mapping[str, int] = {}


def place_policy(key: Key, options: Options, view: View) -> PlacedCachePolicy | None:
    """Return the Gateways of a policy; None where its target is none of ours."""
    policy = view.get(VALIDATED, key)
    if policy is None:
        return None
    if policy.target is None:
        return PlacedCachePolicy(Placement())
    placement = place(policy.target, options, view)
    if placement is None:
        return None
    is_held = attachment.holder(KIND, policy.target, view) == key
    charges = cache_patterns.charges(policy.policy, policy.charge) if is_held else {}
    return PlacedCachePolicy(placement, policy.created, charges)


def charges_of(key: Key, placed: PlacedCachePolicy) -> Mapping[Key, Charge]:
    """Return what the patterns of a policy take of each Gateway."""
    if not placed.charges:
        return {}
    charge = Charge(key.namespace, precedence(placed.created, key), placed.charges)
    return dict.fromkeys(placed.placement.attached, charge)


PLACED: Table[PlacedCachePolicy] = Table("placed VarnishCachePolicy")
PLACE = Layer(table=PLACED, kinds=(KIND,), compute=place_policy, charges=charges_of)
