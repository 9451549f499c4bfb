from support.builders.objects import listener_set, obj
from varnish_gateway.api import Key
from varnish_gateway.translate.gateway.listener_set_index import ListenerSetIndex

GW, OTHER = (Key("Gateway", "default", name) for name in ("gw", "other"))


def key(name: str, namespace: str = "default") -> Key:
    return Key("ListenerSet", namespace, name)


def indexed(**parents: str) -> ListenerSetIndex:
    index = ListenerSetIndex()
    for name, parent in parents.items():
        index.put(key(name), listener_set(name, parent=parent))
    return index


def test_listener_set_is_found_by_its_gateway_and_back():
    index = indexed(a="gw", b="gw", c="other")
    assert [index.gateway_of(key(name)) for name in "abc"] == [GW, GW, OTHER]
    assert (index.of(GW), index.of(OTHER)) == ([key("a"), key("b")], [key("c")])


def test_key_that_is_no_listener_set_is_its_own_gateway():
    assert indexed(a="gw").gateway_of(GW) == GW
    assert indexed(a="gw").gateway_of(key("unknown")) == key("unknown")


def test_listener_set_that_changes_its_parent_moves():
    index = indexed(a="gw", b="gw")
    index.put(key("a"), listener_set("a", parent="other"))
    assert (index.of(GW), index.of(OTHER)) == ([key("b")], [key("a")])


def test_deleted_listener_set_is_removed():
    index = indexed(a="gw")
    index.put(key("a"), None)
    assert index.of(GW) == []
    assert index.gateway_of(key("a")) == key("a")


def test_listener_set_with_another_kind_of_parent_has_no_gateway():
    index = ListenerSetIndex()
    index.put(key("a"), obj("ListenerSet", "a", "default", spec={"parentRef": {"name": "gw", "kind": "Service"}}))
    assert index.of(GW) == []


def test_listener_sets_are_ordered_by_age_then_by_namespace_and_name():
    index = ListenerSetIndex()
    for name, namespace, created in (("young", "a", 3), ("b", "team", 2), ("z", "team-a", 2), ("old", "z", 1)):
        metadata = {"creationTimestamp": f"2024-01-01T00:00:0{created}Z"}
        index.put(key(name, namespace), listener_set(name, namespace=namespace, metadata=metadata))
    assert [(found.namespace, found.name) for found in index.of(GW)] == [
        ("z", "old"),
        ("team-a", "z"),
        ("team", "b"),
        ("a", "young"),
    ]
