from varnish_gateway.ir import Condition
from varnish_gateway.translate.conditions import (
    Problem,
    conflicted,
    partially_invalid,
    positive,
    summary,
    unprogrammed,
)

ONE, TWO = Problem("First", "one is wrong"), Problem("Second", "two is wrong")


def test_positive_conditions():
    assert positive("Accepted", None, 2) == Condition("Accepted", "True", "Accepted", "", 2)
    assert positive("Accepted", ONE, 2) == Condition("Accepted", "False", "First", "one is wrong", 2)


def test_conflicted_is_true_when_something_is_wrong():
    assert conflicted(None, 1).status == "False"
    assert conflicted(ONE, 1) == Condition("Conflicted", "True", "First", "one is wrong", 1)


def test_programmed_is_open_until_the_data_plane_knows():
    assert (unprogrammed(None, 1).status, unprogrammed(None, 1).reason) == ("Unknown", "Pending")
    assert unprogrammed(ONE, 1).status == "False"


def test_several_problems_as_one():
    assert summary([]) is None
    assert summary([ONE, TWO]) == Problem("First", "one is wrong; two is wrong")


def test_partially_invalid_starts_as_the_gateway_api_wants_it():
    condition = partially_invalid([ONE, TWO], 1)
    assert condition.status == "True"
    assert condition.message.startswith("Dropped Rule")
    assert "two is wrong" in condition.message
