import pytest

from support.builders.objects import obj, view_of
from varnish_gateway.api import Key
from varnish_gateway.api.gateway_networking import RouteNamespaces
from varnish_gateway.api.meta import LabelSelector, SelectorRequirement
from varnish_gateway.translate.gateway.namespaces import allowed, labels_of, selects


def choose(source: str, selector: LabelSelector | None = None) -> RouteNamespaces:
    return RouteNamespaces(from_=source, selector=selector)


@pytest.mark.parametrize(
    ("source", "route", "expected"),
    [("Same", "a", True), ("Same", "b", False), ("All", "b", True), ("Selector", "a", False), ("None", "a", False)],
)
def test_where_routes_may_come_from(source: str, route: str, expected: bool):
    assert allowed(choose(source), owner="a", guest=route, view=view_of()) is expected


def test_labels_are_looked_up_and_remembered_only_for_a_selector():
    view = view_of(obj("Namespace", "team", group="", metadata={"labels": {"tier": "web"}}))
    assert allowed(choose("All"), owner="a", guest="team", view=view)
    assert view.dependencies == set()
    selector = LabelSelector(match_labels={"tier": "web"})
    assert allowed(choose("Selector", selector), owner="a", guest="team", view=view)
    assert view.dependencies == {Key("Namespace", "", "team")}


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ("web",), True),
        ("In", ("app",), False),
        ("NotIn", ("app",), True),
        ("NotIn", ("web",), False),
        ("Exists", (), True),
        ("DoesNotExist", (), False),
        ("Like", ("web",), False),
    ],
)
def test_selector_operators_are_evaluated(operator: str, values: tuple[str, ...], expected: bool):
    selector = LabelSelector(match_expressions=(SelectorRequirement(key="tier", operator=operator, values=values),))
    assert selects(selector, {"tier": "web"}) is expected


def test_a_label_that_is_absent():
    requirements = [SelectorRequirement(key="tier", operator=each, values=("web",)) for each in ("In", "NotIn")]
    inside, outside = (LabelSelector(match_expressions=(each,)) for each in requirements)
    assert not selects(inside, {})
    assert selects(outside, {})


def test_everything_must_hold():
    selector = LabelSelector(
        match_labels={"a": "1"}, match_expressions=(SelectorRequirement(key="b", operator="Exists"),)
    )
    assert selects(selector, {"a": "1", "b": "2"})
    assert not selects(selector, {"a": "1"})
    assert not selects(selector, {"b": "2"})


def test_namespace_always_has_its_name_as_a_label():
    view = view_of(obj("Namespace", "team", group="", metadata={"labels": {"a": "b"}}))
    assert labels_of("team", view) == {"a": "b", "kubernetes.io/metadata.name": "team"}
    assert labels_of("bare", view) == {"kubernetes.io/metadata.name": "bare"}
