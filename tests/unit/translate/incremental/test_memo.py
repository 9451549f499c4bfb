from support.builders.objects import route, service, store_of
from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.translate.incremental.memo import Memo
from varnish_gateway.translate.incremental.view import View

A, B, WEB = Key("HTTPRoute", "default", "a"), Key("HTTPRoute", "default", "b"), Key("Service", "default", "web")


class Names:
    """A memo of routes whose value says whether a Service exists; it records its own work."""

    def __init__(self) -> None:
        self.store = store_of()
        self.computed: list[Key] = []
        self.memo = Memo(("HTTPRoute",), self.store, self.compute)

    def compute(self, key: Key, view: View) -> str | None:
        self.computed.append(key)
        if view.find(api.HTTPRoute, key.namespace, key.name) is None:
            return None
        name = "web" if key == A else "api"
        return f"{name} {view.find(api.Service, 'default', name) is not None}"

    def put(self, key: Key, obj: api.Object | None) -> dict:
        self.computed.clear()
        return dict(self.memo.update(self.store.put(key, obj)))


def test_change_recomputes_only_its_dependents():
    names = Names()
    assert names.put(A, route("a")) == {A: (None, "web False")}
    assert names.put(B, route("b")) == {B: (None, "api False")}
    assert names.put(WEB, service()) == {A: ("web False", "web True")}
    assert names.computed == [A]


def test_equal_value_is_no_change():
    names = Names()
    names.put(A, route("a"))
    assert names.put(A, route("a", hostnames=["x.org"])) == {}
    assert names.computed == [A]


def test_deleted_object_has_no_value_and_no_dependencies():
    names = Names()
    names.put(A, route("a"))
    assert set(names.store.referenced("Service")) == {WEB}
    assert names.put(A, None) == {A: ("web False", None)}
    assert names.put(WEB, service()) == {}
    assert names.computed == []
    assert names.memo.values == {}
    assert set(names.store.referenced("Service")) == set()


def test_two_memos_that_share_a_dependency_reference_it_until_both_drop_it():
    names = Names()
    other = Memo(("HTTPRoute",), names.store, names.compute)
    names.put(A, route("a"))
    other.update([A])
    changed = list(names.store.put(A, None))
    names.memo.update(changed)
    assert set(names.store.referenced("Service")) == {WEB}
    other.update(changed)
    assert set(names.store.referenced("Service")) == set()
