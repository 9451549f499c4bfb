"""What a VarnishCacheInvalidation asks of pods, within its tenancy."""

import json

import msgspec

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.ir.invalidation import LARGEST, read_invalidation
from varnish_gateway.translate.invalidation.request import PodRequest, RequestFault, request_of

ROUTES = (Key("HTTPRoute", "shop", "web"), Key("HTTPRoute", "shop", "api"), Key("HTTPRoute", "tea", "pots"))


def invalidation(namespace: str = "infra", **spec) -> api.VarnishCacheInvalidation:
    """Return one for a Gateway of the namespace infra."""
    document = {
        "metadata": {"name": "i", "namespace": namespace},
        "spec": {"gatewayRef": {"name": "gw", "namespace": "infra"}, **spec},
    }
    return msgspec.convert(document, api.VarnishCacheInvalidation)


def asked(namespace: str = "infra", **spec) -> dict:
    """Return what pods get, which they must be able to read."""
    request = request_of(invalidation(namespace, **spec), ROUTES)
    assert isinstance(request, PodRequest)
    assert len(read_invalidation(request.content).targets) == len(request.targets)
    return json.loads(request.content)


def test_purge_names_exact_uris_and_ban_expressions_as_in_manifests_for_other_gateways():
    purge = asked(type="Purge", hostname="a.example", paths=["/v1/x", "/v1/y?z=1"])
    assert purge == {
        "mode": "hard",
        "targets": [
            {"uri": {"host": "a.example", "target": "/v1/x"}},
            {"uri": {"host": "a.example", "target": "/v1/y?z=1"}},
        ],
    }
    ban = asked(type="Ban", hostname="a.example", paths=["^/v1/.*"])
    assert ban["targets"] == [{"matching": {"host": "a.example", "pattern": "^/v1/.*"}}]


def test_every_kind_of_target_is_sent_in_the_order_of_its_counts():
    spec = {"prefixes": ["/news/"], "tags": ["a", "b"], "routes": ["web", "shop/api"], "everything": True}
    request = request_of(invalidation("infra", hostname="a.example", mode="Soft", **spec), ROUTES)
    assert json.loads(request.content) == {
        "mode": "soft",
        "targets": [
            {"prefix": {"host": "a.example", "prefix": "/news/"}},
            {"tags": ["a", "b"]},
            {"route": "infra/web"},
            {"route": "shop/api"},
            {"everything": True},
        ],
    }
    assert request.targets == ("prefix /news/", "tags", "route infra/web", "route shop/api", "everything")


def test_hostname_alone_is_everything_of_the_host():
    assert asked(hostname="a.example")["targets"] == [{"host": "a.example"}]


def test_invalidation_from_another_namespace_is_restricted_to_that_namespace_whatever_serves():
    """A list of the routes that serve would miss what a removed one has stored."""
    assert asked("shop", everything=True)["namespaces"] == ["shop"]
    assert asked("infra", everything=True).keys() == {"mode", "targets"}


def test_routes_of_other_namespaces_are_left_out_and_reported():
    request = request_of(invalidation("shop", routes=["web", "tea/pots"], tags=["a"]), ROUTES)
    assert json.loads(request.content)["targets"] == [{"tags": ["a"]}, {"route": "shop/web"}]
    assert request.restriction == (
        "from namespace shop, only what routes of that namespace have stored is meant; left out: tea/pots"
    )
    only_foreign = request_of(invalidation("shop", routes=["tea/pots"]), ROUTES)
    assert only_foreign == RequestFault("NotPermitted", "from namespace shop these can't be named: tea/pots")


def test_invalidation_from_a_namespace_without_routes_is_a_fault():
    fault = request_of(invalidation("other", everything=True), ROUTES)
    assert isinstance(fault, RequestFault)
    assert (fault.reason, "namespace other" in fault.message) == ("NoRoutes", True)
    assert asked("other", routes=["gone"])["namespaces"] == ["other"], "it names a route of its own"


def test_more_than_pods_accept_is_a_fault():
    fault = request_of(invalidation("infra", tags=["x" * 1000] * (LARGEST // 1000)), ROUTES)
    assert isinstance(fault, RequestFault)
    assert fault.reason == "TooLarge"
