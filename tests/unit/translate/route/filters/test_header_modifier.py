import pytest

from support.builders.filters import reasons, request_headers, translate
from varnish_gateway.ir import wire


def test_header_modifiers_are_translated():
    got = translate(
        request_headers(set=[{"name": "A", "value": "1"}], add=[{"name": "B", "value": "2"}], remove=["C"]),
        {"type": "ResponseHeaderModifier", "responseHeaderModifier": {"remove": ["D"]}},
    )
    assert got.filters == wire.Filters(
        request=wire.HeaderModifier(
            set=(wire.Header(name="A", value="1"),), add=(wire.Header(name="B", value="2"),), remove=("C",)
        ),
        response=wire.HeaderModifier(remove=("D",)),
    )
    assert not got.problems


def test_first_of_equivalent_header_names_counts():
    got = translate(request_headers(set=[{"name": "A", "value": "1"}, {"name": "a", "value": "2"}]))
    assert got.filters.request.set == (wire.Header(name="A", value="1"),)


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\x00"])
def test_header_value_with_a_control_character_is_unsupported(value: str):
    assert reasons(translate(request_headers(add=[{"name": "A", "value": value}]))) == ["UnsupportedValue"]


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding", "CDN-Loop"])
def test_header_of_framing_or_loop_detection_can_not_be_changed(name: str):
    header = {"name": name, "value": "1"}
    for modifier in ({"set": [header]}, {"add": [header]}, {"remove": [name]}):
        assert reasons(translate(request_headers(**modifier))) == ["UnsupportedValue"]


@pytest.mark.parametrize("name", ["X-Ghost-Upgrade", "x-ghost-miss", "X_Ghost_Miss"])
def test_header_of_the_gateway_itself_can_not_be_changed(name: str):
    """A filter could make the next try of a fetch one of another client."""
    header = {"name": name, "value": "1"}
    for modifier in ({"set": [header]}, {"add": [header]}, {"remove": [name]}):
        (problem,) = translate(request_headers(**modifier)).problems
        assert problem.reason == "UnsupportedValue"
        assert problem.message.startswith(f"header {name.lower()} can't be changed, because X-Ghost- and X-Gateway-")


def test_header_that_identifies_the_route_can_be_removed_but_not_set():
    header = {"name": "X-Gateway-Route", "value": "shop/other"}
    for modifier in ({"set": [header]}, {"add": [header]}):
        assert reasons(translate(request_headers(**modifier))) == ["UnsupportedValue"]
    assert not translate(request_headers(remove=["X-Gateway-Route"])).problems


def test_header_with_two_actions_is_unsupported():
    one, two = {"name": "A", "value": "1"}, {"name": "a", "value": "2"}
    for modifier in ({"set": [one], "add": [two]}, {"add": [one], "remove": ["a"]}, {"set": [one], "remove": ["a"]}):
        assert reasons(translate(request_headers(**modifier))) == ["UnsupportedValue"]
