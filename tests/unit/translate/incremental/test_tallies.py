from varnish_gateway.api import Key
from varnish_gateway.translate.incremental.dependency import Derived
from varnish_gateway.translate.incremental.tallies import Tallies

A, B = (Key("Gateway", "default", name) for name in "ab")


def test_values_are_counted_by_owner_and_label():
    tallies = Tallies()
    assert tallies.update(set(), {(A, "x"), (B, "x")}) == [Derived("tally", A), Derived("tally", B)]
    assert tallies.update(set(), {(A, "x"), (A, "y")}) == [Derived("tally", A)]
    assert (tallies.of(A), tallies.of(B)) == ({"x": 2, "y": 1}, {"x": 1})


def test_value_that_counts_the_same_changes_no_tally():
    tallies = Tallies()
    tallies.update(set(), {(A, "x")})
    assert tallies.update({(A, "x")}, {(A, "x")}) == []


def test_value_that_is_gone_is_not_counted():
    tallies = Tallies()
    tallies.update(set(), {(A, "x")})
    assert tallies.update({(A, "x")}, set()) == [Derived("tally", A)]
    assert tallies.of(A) == {}
