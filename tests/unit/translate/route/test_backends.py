import pytest

from support.builders.objects import grant, service, view_of
from varnish_gateway.api import Key
from varnish_gateway.api.gateway_networking import BackendRef
from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.incremental.view import View
from varnish_gateway.translate.route.backends import resolve

EXTERNAL = {"type": "ExternalName", "externalName": "origin.example.org", "ports": []}


def ask(view: View, *, external: bool = True, **ref) -> wire.Backend | Problem:
    expected = BackendRef(**{"name": "web", "port": 80} | ref)
    return resolve(expected, route_namespace="default", allow_external_name=external, view=view)


def reason(answer: wire.Backend | Problem) -> str:
    assert isinstance(answer, Problem)
    return answer.reason


def test_a_service_with_its_port_name_and_weight():
    assert ask(view_of(service()), weight=3) == wire.Backend(weight=3, service="default/web", port=80, port_name="http")


def test_a_headless_service_is_a_service():
    assert ask(view_of(service(clusterIP="None"))) == wire.Backend(service="default/web", port=80, port_name="http")


def test_another_namespace_needs_a_grant():
    there = service(namespace="team")
    assert reason(ask(view_of(there), namespace="team")) == "RefNotPermitted"
    assert ask(view_of(there, grant("team")), namespace="team") == wire.Backend(
        service="team/web", port=80, port_name="http"
    )


def test_missing_grant_reveals_nothing_about_another_namespace():
    view = view_of()
    assert reason(ask(view, namespace="team")) == "RefNotPermitted"
    assert Key("Service", "team", "web") not in view.dependencies


def test_the_own_namespace_needs_no_grant_also_when_it_is_named():
    view = view_of(service())
    assert isinstance(ask(view, namespace="default"), wire.Backend)
    looked_up = {each for each in view.dependencies if isinstance(each, Key)}
    assert looked_up == {Key("Service", "default", "web")}, "and no grant"


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ({"name": "gone"}, "BackendNotFound"),
        ({"port": 81}, "BackendNotFound"),
        ({"port": None}, "BackendNotFound"),
        ({"kind": "Pod"}, "InvalidKind"),
        ({"group": "example.com"}, "InvalidKind"),
    ],
    ids=str,
)
def test_unresolvable_backend_ref_has_its_reason(ref: dict, expected: str):
    assert reason(ask(view_of(service()), **ref)) == expected


@pytest.mark.parametrize("protocol", ["kubernetes.io/h2c", "kubernetes.io/wss", "https", "grpc"])
def test_protocols_that_we_do_not_speak(protocol: str):
    view = view_of(service(ports=[{"port": 80, "appProtocol": protocol}]))
    assert reason(ask(view)) == "UnsupportedProtocol"


@pytest.mark.parametrize("protocol", [None, "", "http", "kubernetes.io/ws"])
def test_protocols_that_we_speak(protocol: str | None):
    assert isinstance(ask(view_of(service(ports=[{"port": 80, "appProtocol": protocol}]))), wire.Backend)


def test_udp_is_not_spoken_but_does_not_hide_tcp_on_the_same_port():
    udp, tcp = {"name": "u", "port": 80, "protocol": "UDP"}, {"name": "t", "port": 80}
    assert reason(ask(view_of(service(ports=[udp])))) == "UnsupportedProtocol"
    assert ask(view_of(service(ports=[udp, tcp]))).port_name == "t"


def test_an_external_name_needs_no_declared_port():
    assert ask(view_of(service(**EXTERNAL)), port=8080) == wire.Backend(
        service="default/web", port=8080, external="origin.example.org"
    )


def test_an_external_name_has_to_be_allowed_and_to_name_a_host():
    assert reason(ask(view_of(service(**EXTERNAL)), external=False)) == "InvalidKind"
    assert reason(ask(view_of(service(**EXTERNAL | {"externalName": ""})))) == "BackendNotFound"
    ports = [{"port": 80, "appProtocol": "https"}]
    assert reason(ask(view_of(service(**EXTERNAL | {"ports": ports})))) == "UnsupportedProtocol"
