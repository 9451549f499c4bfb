import pytest

from support.builders.objects import GATEWAY_API, grant, obj, view_of
from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.translate.grants import Referrer, granted
from varnish_gateway.translate.incremental.dependency import Derived
from varnish_gateway.translate.incremental.view import View


def ask(view: View, route: str = "default", service: str = "web") -> bool:
    return granted(Referrer("HTTPRoute", route), Key("Service", "team", service), view)


def service_grant(service: str) -> api.Object:
    to = [{"group": "", "kind": "Service", "name": service}]
    source = {"group": GATEWAY_API, "kind": "HTTPRoute", "namespace": "default"}
    return obj("ReferenceGrant", "named", "team", spec={"from": [source], "to": to})


def test_without_a_grant_there_is_none_and_all_of_the_namespace_was_looked_at():
    view = view_of(grant("elsewhere"))
    assert not ask(view)
    assert view.dependencies == {Derived("ReferenceGrant by owner", Key("Namespace", "", "team"))}


def test_a_grant_for_all_services():
    assert ask(view_of(grant("team")))


def test_a_grant_is_for_the_namespace_that_it_names():
    assert not ask(view_of(grant("team", source="other")))


def test_a_grant_for_one_service():
    view = view_of(service_grant("web"))
    assert ask(view)
    assert not ask(view, service="api")


def test_a_grant_for_another_kind_or_group():
    assert not ask(view_of(grant("team", kind="Secret")))
    assert not ask(view_of(grant("team", group="example.com")))


def test_one_of_several_is_enough():
    assert ask(view_of(grant("team", "a", source="other"), grant("team", "b")))


@pytest.mark.parametrize("kind", ["Gateway", "ListenerSet"])
def test_a_grant_is_for_the_kind_that_refers(kind):
    source = {"group": GATEWAY_API, "kind": kind, "namespace": "default"}
    view = view_of(obj("ReferenceGrant", "g", "team", spec={"from": [source], "to": [{"group": "", "kind": "Secret"}]}))
    target = Key("Secret", "team", "cert")
    assert granted(Referrer(kind, "default"), target, view)
    assert not granted(Referrer("HTTPRoute", "default"), target, view)
    assert not granted(Referrer(kind, "team"), target, view)
    assert not granted(Referrer(kind, "default"), target._replace(kind="ConfigMap"), view)
