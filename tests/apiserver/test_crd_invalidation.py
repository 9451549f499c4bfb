"""The CRD of VarnishCacheInvalidation on a real API server: what it refuses, and what people see of it."""

import pytest

from cluster.apiserver.server import Cluster, Document
from cluster.errors import Refused

PATH = "/apis/gateway.varnish-software.com/v1alpha1/namespaces/default/varnishcacheinvalidations"
HOST = {"hostname": "a.example"}

GOOD: list[Document] = [
    {**HOST, "type": "Purge", "paths": ["/api/users/123", "/x?y=1"], "ttl": "1h0m0s"},
    {**HOST, "type": "Ban", "paths": ["^/v1/.*"]},
    HOST,
    {**HOST, "prefixes": ["/news/"], "mode": "Soft"},
    {"tags": ["product-17", "%2525"]},
    {"routes": ["web", "shop/api"], "gatewayRef": {"name": "gw", "namespace": "infra"}},
    {"everything": True, "ttl": "1.5s"},
]
BAD: list[tuple[Document, str]] = [
    ({}, "set hostname, tags, routes or everything"),
    ({"everything": False}, "set hostname, tags, routes or everything"),
    ({"paths": ["/x"]}, "paths and prefixes are those of a host; set hostname"),
    ({"prefixes": ["/x"], "tags": ["a"]}, "paths and prefixes are those of a host; set hostname"),
    ({**HOST, "paths": ["x"]}, "with type Purge each of the paths starts with a slash"),
    ({**HOST, "tags": ["a"]}, "hostname alone is everything of a host"),
    ({**HOST, "everything": True}, "hostname alone is everything of a host"),
    ({**HOST, "type": "Refresh"}, "Unsupported value"),
    ({**HOST, "mode": "soft"}, "Unsupported value"),
    ({"hostname": 'a" || true'}, "spec.hostname"),
    ({**HOST, "paths": []}, "spec.paths"),
    ({**HOST, "prefixes": ["news"]}, "spec.prefixes[0]"),
    ({"tags": [""]}, "spec.tags[0]"),
    ({"routes": ["a/b/c"]}, "spec.routes[0]"),
    ({**HOST, "ttl": "1d"}, "spec.ttl"),
]


def create(cluster: Cluster, name: str, spec: Document) -> Document:
    document = {
        "apiVersion": "gateway.varnish-software.com/v1alpha1",
        "kind": "VarnishCacheInvalidation",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"gatewayRef": {"name": "nowhere"}, **spec},
    }
    return cluster.request("POST", PATH, document)


@pytest.mark.parametrize("spec", GOOD, ids=",".join)
def test_invalidation_is_accepted_with_its_defaults(cluster, spec):
    created = create(cluster, "good", spec)["spec"]
    cluster.request("DELETE", f"{PATH}/good")
    assert created == {"gatewayRef": {"name": "nowhere"}, "type": "Purge", "mode": "Hard", "ttl": "1h", **spec}


@pytest.mark.parametrize(("spec", "message"), BAD, ids=[str(spec) for spec, _ in BAD])
def test_invalidation_that_says_nothing_or_too_much_is_refused(cluster, spec, message):
    with pytest.raises(Refused) as refused:
        create(cluster, "bad", spec)
    assert message in str(refused.value)


def test_ten_thousand_tags_fit(cluster):
    create(cluster, "tags", {"tags": [f"product-{number}" for number in range(10_000)]})
    cluster.request("DELETE", f"{PATH}/tags")


def test_kubectl_get_prints_gateway_phase_objects_and_age(cluster):
    create(cluster, "seen", HOST)
    cluster.merge(f"{PATH}/seen/status", {"status": {"phase": "Complete", "objects": 12}})
    header, row = cluster.kubectl("get", "vcinv", "seen").splitlines()
    cluster.request("DELETE", f"{PATH}/seen")
    assert header.split() == ["NAME", "GATEWAY", "PHASE", "OBJECTS", "AGE"]
    assert row.split()[:4] == ["seen", "nowhere", "Complete", "12"]
