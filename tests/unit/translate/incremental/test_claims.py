from varnish_gateway.api import Key
from varnish_gateway.translate.incremental.claims import (
    Claim,
    Claims,
    gateway_hostname,
    gateway_port,
    machine_port,
    rank,
)

A, B, C = (Key("Gateway", "default", name) for name in "abc")
P80, P81 = machine_port(80), machine_port(81)


def aged(key: Key, created: int) -> Claim:
    return Claim(rank(created, key), key)


def holders(claims: Claims) -> dict[Key, Key]:
    return {place: claim.holder for place, claim in claims.winners.items()}


def test_the_oldest_wins():
    claims = Claims()
    assert claims.claim(A, {P80: aged(A, 2)}) == [P80]
    assert claims.claim(B, {P80: aged(B, 1)}) == [P80]
    assert holders(claims) == {P80: B}
    assert claims.claim(C, {P80: aged(C, 3)}) == [], "nobody has to look again"
    assert holders(claims) == {P80: B}


def test_of_the_same_age_the_first_by_namespace_and_name():
    claims = Claims()
    for key in (C, B, Key("Gateway", "zoo", "a")):
        claims.claim(key, {P80: aged(key, 1)})
    assert holders(claims) == {P80: B}


def test_namespace_and_name_are_compared_as_one_text():
    """A "-" comes before a "/"."""
    claims = Claims()
    for key in (Key("ListenerSet", "team", "x"), Key("ListenerSet", "team-a", "x")):
        claims.claim(key, {P80: aged(key, 1)})
    assert holders(claims) == {P80: Key("ListenerSet", "team-a", "x")}


def test_a_place_goes_to_the_next_one():
    claims = Claims()
    claims.claim(A, {P80: aged(A, 1), P81: aged(A, 1)})
    claims.claim(B, {P80: aged(B, 2)})
    claims.claim(C, {P80: aged(C, 3)})
    assert claims.claim(A, {P81: aged(A, 1)}) == [P80]
    assert holders(claims) == {P80: B, P81: A}
    assert claims.claim(C, {}) == []
    claims.claim(B, {})
    claims.claim(A, {})
    assert holders(claims) == {}
    assert (claims._claims, claims._places) == ({}, {})


def test_age_can_change():
    claims = Claims()
    claims.claim(A, {P80: aged(A, 1)})
    claims.claim(B, {P80: aged(B, 2)})
    claims.claim(A, {P80: aged(A, 3)})
    assert holders(claims) == {P80: B}


def test_claims_of_one_holder_stand_for_each_other():
    claims, sets = Claims(), [Key("ListenerSet", "default", name) for name in "xy"]
    for one in sets:
        claims.claim(one, {P80: aged(A, 1)})
    assert claims.claim(sets[0], {}) == []
    assert holders(claims) == {P80: A}


def test_places_of_gateways_are_told_apart():
    places = {
        machine_port(80),
        gateway_port(A, 80),
        gateway_port(B, 80),
        gateway_hostname(A, 80, "HTTP", "*"),
        gateway_hostname(A, 80, "HTTPS", "*"),
        gateway_hostname(A, 80, "HTTP", "a.example.com"),
    }
    assert len(places) == 6
