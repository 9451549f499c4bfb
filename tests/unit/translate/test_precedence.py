from varnish_gateway.api import Key
from varnish_gateway.translate.precedence import precedence


def key(namespace: str, name: str) -> Key:
    return Key("Gateway", namespace, name)


def test_older_object_precedes():
    assert precedence(1, key("default", "b")) < precedence(2, key("default", "a"))


def test_objects_of_one_age_are_ordered_by_namespace_and_name():
    assert precedence(1, key("default", "b")) < precedence(1, key("zoo", "a"))
    assert precedence(1, key("default", "a")) < precedence(1, key("default", "b"))


def test_namespace_and_name_are_compared_as_one_text():
    """A "-" comes before a "/"."""
    assert precedence(1, key("team-a", "x")) < precedence(1, key("team", "x"))
