from support.builders.objects import grant, obj, service, store_of, view_of
from varnish_gateway import api
from varnish_gateway.api import Key


def test_what_is_not_there_is_remembered_too():
    view = view_of(service())
    assert view.find(api.Service, "default", "web") is not None
    assert view.find(api.Service, "default", "gone") is None
    assert view.seen == {Key("Service", "default", "web"), Key("Service", "default", "gone")}


def test_grants_of_a_namespace():
    view = view_of(grant("team", "a"), grant("team", "b"), grant("other", "c"))
    assert [each.metadata.name for each in view.grants("team")] == ["a", "b"]
    assert view.seen == {Key("ReferenceGrant", "team", "*")}


def test_a_namespace_always_has_its_name_as_a_label():
    view = view_of(obj("Namespace", "team", group="", metadata={"labels": {"a": "b"}}))
    assert view.namespace_labels("team") == {"a": "b", "kubernetes.io/metadata.name": "team"}
    assert view.namespace_labels("bare") == {"kubernetes.io/metadata.name": "bare"}


def test_an_object_that_did_not_change_is_no_change():
    store = store_of(service())
    assert list(store.put(Key("Service", "default", "web"), service())) == []
    assert list(store.put(Key("Service", "default", "gone"), None)) == []


def test_a_grant_is_a_change_of_its_namespace():
    store, key = store_of(), Key("ReferenceGrant", "team", "a")
    assert list(store.put(key, grant("team", "a"))) == [key, Key("ReferenceGrant", "team", "*")]
    assert list(store.put(key, None)) == [key, Key("ReferenceGrant", "team", "*")]
    assert list(store.grants["team"]) == []


def test_whether_there_is_any_class():
    store, key = store_of(), Key("GatewayClass", "", "a")
    of_a = obj("GatewayClass", "a", spec={"controllerName": "x"})
    assert list(store.put(key, of_a)) == [key, Key("GatewayClass", "", "*")]
    assert store.class_objects == 1
    of_a = obj("GatewayClass", "a", spec={"controllerName": "y"})
    assert list(store.put(key, of_a)) == [key]
    assert list(store.put(key, None)) == [key, Key("GatewayClass", "", "*")]
    assert store.class_objects == 0
