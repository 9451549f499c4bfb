from support.builders.objects import grant, service, store_of, view_of
from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.translate.incremental.dependency import Derived, Table
from varnish_gateway.translate.incremental.view import View

TEAM, NAMES = Key("Namespace", "", "team"), Table("names")


def test_lookup_of_a_missing_object_is_a_dependency():
    view = view_of(service())
    assert view.find(api.Service, "default", "web") is not None
    assert view.find(api.Service, "default", "missing") is None
    assert view.dependencies == {Key("Service", "default", "web"), Key("Service", "default", "missing")}


def test_lookup_of_members_is_one_dependency():
    view = view_of(grant("team", "a"), grant("team", "b"), grant("other", "c"))
    assert [key.name for key in view.members(api.ReferenceGrant, TEAM)] == ["a", "b"]
    assert view.dependencies == {Derived("ReferenceGrant by owner", TEAM)}


def test_lookup_in_a_table_is_a_dependency_on_the_value():
    store = store_of()
    store.tables["names"] = {TEAM: "Team"}
    view, other = View(store), TEAM._replace(name="other")
    assert (view.get(NAMES, TEAM), view.get(NAMES, other)) == ("Team", None)
    assert view.dependencies == {Derived("names", TEAM), Derived("names", other)}


def test_lookup_of_a_tally_is_a_dependency_on_its_owner():
    store = store_of()
    store.tallies.update(set(), {(TEAM, "a")})
    view = View(store)
    assert view.tally(TEAM) == {"a": 1}
    assert view.dependencies == {Derived("tally", TEAM)}


def test_object_is_validated_once():
    runs = []

    def validate(found: api.Service) -> str:
        runs.append(found)
        return found.metadata.name

    store = store_of(service())
    assert [View(store).validated(api.Service, "default", "web", validate) for _ in range(2)] == ["web", "web"]
    assert View(store).validated(api.Service, "default", "missing", validate) is None
    assert len(runs) == 1
    store.put(Key("Service", "default", "web"), service(type="ExternalName"))
    assert View(store).validated(api.Service, "default", "web", validate) == "web"
    assert len(runs) == 2
