from varnish_gateway.api import Key
from varnish_gateway.translate.incremental.claims import Claim, Claims
from varnish_gateway.translate.incremental.dependency import Derived
from varnish_gateway.translate.precedence import precedence

A, B, C = (Key("Gateway", "default", name) for name in "abc")
P80, P81 = Derived("port", 80), Derived("port", 81)


def aged(key: Key, created: int) -> Claim:
    return Claim(precedence(created, key), key)


def holders(claims: Claims) -> dict[Derived, Key]:
    return {place: claim.holder for place, claim in claims.winners.items()}


def test_lowest_rank_wins():
    claims = Claims()
    assert claims.update(A, {P80: aged(A, 2)}) == [P80]
    assert claims.update(B, {P80: aged(B, 1)}) == [P80]
    assert holders(claims) == {P80: B}
    assert claims.update(C, {P80: aged(C, 3)}) == [], "the winner is the same"
    assert holders(claims) == {P80: B}


def test_withdrawn_place_goes_to_the_next_claim():
    claims = Claims()
    claims.update(A, {P80: aged(A, 1), P81: aged(A, 1)})
    claims.update(B, {P80: aged(B, 2)})
    claims.update(C, {P80: aged(C, 3)})
    assert claims.update(A, {P81: aged(A, 1)}) == [P80]
    assert holders(claims) == {P80: B, P81: A}
    assert claims.update(C, {}) == []
    claims.update(B, {})
    claims.update(A, {})
    assert holders(claims) == {}


def test_claim_with_a_new_rank_can_lose_its_place():
    claims = Claims()
    claims.update(A, {P80: aged(A, 1)})
    claims.update(B, {P80: aged(B, 2)})
    claims.update(A, {P80: aged(A, 3)})
    assert holders(claims) == {P80: B}


def test_other_claim_of_the_same_holder_keeps_the_place():
    claims, sets = Claims(), [Key("ListenerSet", "default", name) for name in "xy"]
    for each in sets:
        claims.update(each, {P80: aged(A, 1)})
    assert claims.update(sets[0], {}) == []
    assert holders(claims) == {P80: A}
