from varnish_gateway.ir import Condition
from varnish_gateway.translate.conditions import (
    LISTED,
    MESSAGE_LIMIT,
    Problem,
    clipped,
    conflicted,
    listed,
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


def test_a_long_list_ends_with_how_many_more_there_are():
    hundred = ["x" * 99] * 100
    assert listed(hundred[:9]) == "; ".join(hundred[:9])
    assert listed(hundred).endswith("xx; and 91 more")
    assert listed(hundred, ", ").endswith("xx, and 91 more")
    assert len(listed(hundred)) < LISTED + 20


def test_shortened_list_keeps_at_least_one_text():
    assert listed(["x" * 2000, "y"]) == "x" * 2000 + "; and 1 more"
    assert listed([]) == ""


def test_list_counts_what_is_not_given_with_what_does_not_fit():
    assert listed(["x", "y"], more=90) == "x; y; and 90 more"
    assert listed(["x" * 600, "y" * 600], more=90) == "x" * 600 + "; and 91 more"
    assert listed(["x"], more=-1) == "x"
    assert listed([], more=3) == "and 3 more"


def test_no_message_is_longer_than_the_api_server_takes():
    long = Problem("Invalid", "x" * 40_000)
    conditions = [
        positive("Accepted", long, 1),
        positive("Accepted", None, 1, message=long.message),
        conflicted(long, 1),
        unprogrammed(long, 1),
        partially_invalid([long, ONE], 1),
    ]
    assert {len(each.message) for each in conditions} == {MESSAGE_LIMIT}
    assert all(each.message.endswith("xx…") for each in conditions)
    assert clipped("short") == "short"
