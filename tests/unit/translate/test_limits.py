"""Input over a limit becomes a condition on its own object and affects no other."""

import msgspec

from varnish_gateway import api
from varnish_gateway.api import Key, key_of
from varnish_gateway.decoding import decode
from varnish_gateway.ir import UserVclUnavailable
from varnish_gateway.translate import Translator

GROUP = "gateway.networking.k8s.io/v1"


def objects(*, path: str = "/", vcl: str | None = None) -> list[api.Object]:
    ref = {"group": "gateway.varnish-software.com", "kind": "GatewayClassParameters", "name": "p"}
    documents = [
        {
            "apiVersion": GROUP,
            "kind": "GatewayClass",
            "metadata": {"name": "varnish"},
            "spec": {"controllerName": "varnish-software.com/gateway"} | ({"parametersRef": ref} if vcl else {}),
        },
        {
            "apiVersion": "gateway.varnish-software.com/v1alpha1",
            "kind": "GatewayClassParameters",
            "metadata": {"name": "p"},
            "spec": {"userVCLConfigMapRef": {"name": "vcl", "namespace": "shop"}},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "vcl", "namespace": "shop"},
            "data": {"user.vcl": vcl or ""},
        },
        {
            "apiVersion": GROUP,
            "kind": "Gateway",
            "metadata": {"name": "gw", "namespace": "shop"},
            "spec": {"gatewayClassName": "varnish", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
        },
        {
            "apiVersion": GROUP,
            "kind": "HTTPRoute",
            "metadata": {"name": "tea", "namespace": "shop"},
            "spec": {
                "parentRefs": [{"name": "gw"}],
                "rules": [{"matches": [{"path": {"type": "Exact", "value": path}}]}],
            },
        },
    ]
    return [decode(document) for document in documents]


def translated(given: list[api.Object], **limits: int):
    return Translator(**limits).update({key_of(obj): obj for obj in given})


def test_route_that_is_too_large_is_rejected_and_answers_500():
    delta = translated(objects(path="/" + "x" * 1000), route_limit=500)
    (parent,) = delta.statuses[Key("HTTPRoute", "shop", "tea")].parents
    accepted = parent.conditions[0]
    assert (accepted.status, accepted.reason) == ("False", "UnsupportedValue")
    assert "split the route" in accepted.message
    (route,) = delta.gateways[Key("Gateway", "shop", "gw")].routes.values()
    assert [rule.status for rule in route.rules] == [500]
    (rule,) = route.rules
    assert rule.matches[0].path.type == "regex"
    assert rule.approximate, "it comes after the rules of other routes"
    assert len(msgspec.json.encode(route)) < 500


def test_a_route_within_the_limit_is_served():
    delta = translated(objects(), route_limit=500)
    assert delta.statuses[Key("HTTPRoute", "shop", "tea")].parents[0].conditions[0].status == "True"


def test_user_vcl_that_is_too_large_is_unavailable_and_names_the_limit():
    delta = translated(objects(vcl="#" * 1001), vcl_limit=1000)
    found = delta.gateways[Key("Gateway", "shop", "gw")].user_vcl
    assert isinstance(found, UserVclUnavailable)
    assert "1,001 bytes; the limit is 1,000" in found.reason
