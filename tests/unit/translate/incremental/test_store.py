"""The store, its index and its references, over plain Services."""

from support.builders.objects import service
from varnish_gateway.api import Key, key_of
from varnish_gateway.translate.incremental.dependency import Derived
from varnish_gateway.translate.incremental.index import OwnerIndex
from varnish_gateway.translate.incremental.store import ObjectStore

WEB, TEAM = Key("Service", "team", "web"), Key("Namespace", "", "team")


def indexed() -> tuple[ObjectStore, OwnerIndex]:
    index = OwnerIndex("Service", lambda obj: Key("Namespace", "", obj.metadata.namespace))
    return ObjectStore(index), index


def test_object_that_did_not_change_changes_no_dependency():
    store = ObjectStore()
    assert list(store.put(WEB, service(namespace="team"))) == [WEB]
    assert list(store.put(WEB, service(namespace="team"))) == []
    assert list(store.put(Key("Service", "team", "unknown"), None)) == []


def test_indexed_object_changes_the_list_of_its_owner():
    store, index = indexed()
    of_team = Derived("Service by owner", TEAM)
    assert list(store.put(WEB, service(namespace="team"))) == [WEB, of_team]
    assert list(store.put(WEB, service(namespace="team", clusterIP="None", type="ExternalName"))) == [WEB, of_team]
    assert list(index.members(TEAM)) == [WEB]
    assert list(store.put(WEB, None)) == [WEB, of_team]
    assert dict(index.members(TEAM)) == {}


def test_indexed_object_with_another_owner_changes_both_lists():
    index = OwnerIndex("Service", lambda obj: Key("Type", "", obj.spec.type))
    one, two = service(type="ClusterIP"), service(type="ExternalName")
    key = key_of(one)
    index.put(key, one)
    owners = [Key("Type", "", each.spec.type) for each in (one, two)]
    assert list(index.put(key, two)) == [Derived("Service by owner", owner) for owner in owners]
    assert (dict(index.members(owners[0])), list(index.members(owners[1]))) == ({}, [key])
    assert index.owner(key) == owners[1]


def test_object_without_an_owner_is_not_indexed():
    index = OwnerIndex("Service", lambda _: None)
    assert list(index.put(WEB, service(namespace="team"))) == []
    assert index.owner(WEB) is None


def test_referenced_counts_every_layer():
    store = ObjectStore()
    for _ in range(2):
        store.reference(WEB)
    store.dereference(WEB)
    assert list(store.referenced("Service")) == [WEB]
    store.dereference(WEB)
    assert list(store.referenced("Service")) == []
