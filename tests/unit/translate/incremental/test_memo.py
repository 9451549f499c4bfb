from support.builders.objects import route, service, store_of
from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.translate.incremental.memo import Layer
from varnish_gateway.translate.incremental.view import Store, View

A, B, WEB = Key("HTTPRoute", "default", "a"), Key("HTTPRoute", "default", "b"), Key("Service", "default", "web")


class Names:
    """A layer of routes whose value says whether a Service is there; it counts its own work."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.done: list[Key] = []
        self.layer = Layer("HTTPRoute", store, self.compute)

    def compute(self, key: Key, view: View) -> str | None:
        self.done.append(key)
        if view.find(api.HTTPRoute, key.namespace, key.name) is None:
            return None
        wanted = "web" if key == A else "api"
        return f"{wanted} {view.find(api.Service, 'default', wanted) is not None}"

    def put(self, key: Key, obj: api.Object | None) -> dict:
        self.done.clear()
        return dict(self.layer.update(self.store.put(key, obj)))


def test_only_those_that_looked_are_redone():
    names = Names(store_of())
    assert names.put(A, route("a")) == {A: (None, "web False")}
    assert names.put(B, route("b")) == {B: (None, "api False")}
    assert names.put(WEB, service()) == {A: ("web False", "web True")}
    assert names.done == [A]


def test_a_value_that_comes_out_the_same_is_no_change():
    names = Names(store_of())
    names.put(A, route("a"))
    assert names.put(A, route("a", hostnames=["x.org"])) == {}
    assert names.done == [A]


def test_what_is_gone_is_not_asked_again():
    names = Names(store_of())
    names.put(A, route("a"))
    assert names.put(A, None) == {A: ("web False", None)}
    assert names.put(WEB, service()) == {}
    assert names.done == []
    assert names.layer.values == {}
    assert names.layer._readers == {}
