"""The CRD of VarnishCachePolicy on a real API server: what it refuses, with which words, and what people see of it."""

from pathlib import Path

import pytest
import yaml

from cluster.apiserver.server import Cluster, Document
from cluster.errors import Refused

CRD = yaml.safe_load((Path(__file__).parents[2] / "deploy" / "crds" / "varnishcachepolicies.yaml").read_text())
PATH = "/apis/gateway.varnish-software.com/v1alpha1/namespaces/default/varnishcachepolicies"
ROUTE = {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "web"}
DURATION = "has to be a duration such as 500ms, 30s, 1h30m; the units are h, m, s and ms, so write a day as 24h"

COMPLETE: Document = {
    "targetRef": {**ROUTE, "namespace": "default", "sectionName": "assets"},
    "presets": ["static"],
    "defaultTTL": "1.5s",
    "statusTTLs": [{"status": "404", "ttl": "5s"}, {"status": "5xx", "ttl": "0s"}],
    "heuristicPercent": 10,
    "staleWhileRevalidate": "1m",
    "staleIfError": "1h30m",
    "keep": "24h",
    "jitterPercent": 5,
    "hitForMiss": "10s",
    "cacheKey": {
        "headers": ["X-Variant"],
        "cookies": ["theme"],
        "queryParameters": {"include": []},
        "scheme": False,
        "listener": False,
    },
    "bypass": {
        "headers": [{"name": "X-Debug"}, {"name": "X-Preview", "valueRegex": "on|yes"}],
        "cookies": ["session*"],
        "methods": ["HEAD"],
    },
    "setCookie": "Remove",
    "requestCookies": "Ignore",
    "ignoreRequestDirectives": True,
    "revalidation": {"perObject": 1, "perRoute": 10},
    "exactVary": True,
    "tagHeaders": ["Surrogate-Key", "xkey"],
    "cacheStatus": "Trusted",
    "maxObjectSize": 1_000_000,
    "gzip": True,
    "esi": True,
}
EXCLUDED = {"forcedTTL", "unsafeIgnoreNoStoreAndPrivate", "grace"}

BAD: list[tuple[Document, str]] = [
    ({"forcedTTL": "1m"}, "defaultTTL and forcedTTL exclude each other; remove one of them"),
    ({"defaultTTL": None}, "set defaultTTL or forcedTTL, or one of the presets"),
    ({"grace": "1m", "staleWhileRevalidate": "1m"}, "grace and staleWhileRevalidate exclude each other"),
    (
        {"unsafeIgnoreNoStoreAndPrivate": True},
        "unsafeIgnoreNoStoreAndPrivate has an effect only with forcedTTL; set forcedTTL, or remove it",
    ),
    (
        {"defaultTTL": None, "forcedTTL": "1m", "unsafeIgnoreNoStoreAndPrivate": True, "presets": ["static"]},
        "no preset stores private content; remove unsafeIgnoreNoStoreAndPrivate, or the presets",
    ),
    ({"targetRef": None}, "spec.targetRef: Required value"),
    ({"targetRef": {"kind": "HTTPRoute"}}, "spec.targetRef.name: Required value"),
    ({"targetRef": {"kind": "Service", "name": "web"}}, "targetRef has to be a Gateway, a ListenerSet or an HTTPRoute"),
    ({"targetRef": {**ROUTE, "group": ""}}, "targetRef has to be a Gateway, a ListenerSet or an HTTPRoute"),
    ({"presets": ["wordpress"]}, 'spec.presets[0]: Unsupported value: "wordpress"'),
    ({"presets": []}, "spec.presets in body should have at least 1 items"),
    *(
        ({**({"defaultTTL": None} if field == "forcedTTL" else {}), field: "1d"}, f"{field} {DURATION}")
        for field in (
            *("defaultTTL", "forcedTTL", "grace", "staleWhileRevalidate", "staleIfError", "keep", "hitForMiss"),
        )
    ),
    ({"statusTTLs": [{"status": "404", "ttl": "soon"}]}, f"ttl {DURATION}"),
    ({"statusTTLs": [{"status": "206", "ttl": "1s"}]}, "status has to be one of 200 to 599, but not 206 or 304"),
    ({"statusTTLs": [{"status": "404", "ttl": "1s"}] * 2}, "spec.statusTTLs[1]: Duplicate value"),
    ({"heuristicPercent": 101}, "spec.heuristicPercent in body should be less than or equal to 100"),
    ({"jitterPercent": -1}, "spec.jitterPercent in body should be greater than or equal to 0"),
    ({"cacheKey": {"headers": ["a b"]}}, "headers has to have names of headers"),
    ({"cacheKey": {"cookies": ["x"] * 65}}, "spec.cacheKey.cookies: Too many: 65: must have at most 64 items"),
    (
        {"cacheKey": {"queryParameters": {"include": ["a"], "exclude": ["b"]}}},
        "include and exclude exclude each other; remove one of them",
    ),
    ({"bypass": {"headers": [{"valueRegex": "x"}]}}, "spec.bypass.headers[0].name: Required value"),
    ({"bypass": {"headers": [{"name": "a:"}]}}, "name has to be the name of a header"),
    ({"bypass": {"methods": ["GET /"]}}, "methods has to have names of methods"),
    ({"setCookie": "Keep"}, 'spec.setCookie: Unsupported value: "Keep"'),
    ({"requestCookies": "Drop"}, 'spec.requestCookies: Unsupported value: "Drop"'),
    ({"tagHeaders": ["Tags"]}, 'spec.tagHeaders[0]: Unsupported value: "Tags"'),
    ({"cacheStatus": "Always"}, 'spec.cacheStatus: Unsupported value: "Always"'),
    ({"maxObjectSize": -1}, "spec.maxObjectSize in body should be greater than or equal to 0"),
    ({"revalidation": {"perRoute": -1}}, "spec.revalidation.perRoute in body should be greater than or equal to 0"),
]


def policy(name: str, spec: Document) -> Document:
    version = "gateway.varnish-software.com/v1alpha1"
    return {"apiVersion": version, "kind": "VarnishCachePolicy", "metadata": {"name": name}, "spec": spec}


def schema() -> Document:
    found: Document = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


@pytest.mark.parametrize(("spec", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_invalid_policy_is_rejected_with_a_reason(cluster: Cluster, spec, message):
    whole = {"targetRef": ROUTE, "defaultTTL": "1m"} | spec
    given = {name: value for name, value in whole.items() if value is not None}
    with pytest.raises(Refused) as refused:
        cluster.request("POST", f"{PATH}?dryRun=All", policy("bad", given))
    assert refused.value.status == 422
    assert message in str(refused.value).replace('\\"', '"')


def test_every_validation_rule_of_a_policy_has_a_failing_example():
    rules = str(schema()).count("'rule':")
    tried = " ".join(message for _, message in BAD)
    messages = [part.split("'")[0] for part in str(schema()).replace('"', "'").split("'message': '")[1:]]
    assert len(messages) == rules >= 15
    assert [message for message in messages if message[:30] not in tried] == []


def test_complete_policy_sets_every_field_and_is_stored(cluster: Cluster):
    assert schema()["properties"].keys() - COMPLETE.keys() == EXCLUDED
    answer = cluster.request("POST", f"{PATH}?dryRun=All&fieldValidation=Strict", policy("complete", COMPLETE))
    assert answer["spec"] == COMPLETE


def test_group_of_the_target_has_a_default_and_nothing_else_has(cluster: Cluster):
    """Defaults would count as fields of the policy itself, before those of its presets."""
    spec = {"targetRef": {"kind": "HTTPRoute", "name": "web"}, "presets": ["static"], "cacheKey": {}, "bypass": {}}
    answer = cluster.request("POST", f"{PATH}?dryRun=All", policy("defaults", spec))
    assert answer["spec"] == spec | {"targetRef": ROUTE}


def test_policy_is_listed_with_its_target_and_whether_it_is_accepted(cluster: Cluster):
    cluster.request("POST", PATH, policy("shown", {"targetRef": ROUTE, "defaultTTL": "1m"}))
    try:
        accepted = {
            "type": "Accepted",
            "status": "False",
            "reason": "TargetNotFound",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        ref = {"group": ROUTE["group"], "kind": "HTTPRoute", "name": "web", "namespace": "default"}
        entry = {"ancestorRef": ref, "controllerName": "varnish-software.com/gateway", "conditions": [accepted]}
        patch = {"status": {"ancestors": [entry]}}
        cluster.request("PATCH", f"{PATH}/shown/status", patch, content_type="application/merge-patch+json")
        header, row = cluster.kubectl("get", "vcp", "shown").splitlines()
        assert header.split() == ["NAME", "KIND", "TARGET", "SECTION", "ACCEPTED", "REASON", "AGE"]
        assert row.split()[:-1] == ["shown", "HTTPRoute", "web", "False", "TargetNotFound"]
    finally:
        cluster.request("DELETE", f"{PATH}/shown")


def test_crd_is_labelled_as_a_policy():
    assert CRD["metadata"]["labels"] == {"gateway.networking.k8s.io/policy": "Inherited"}
    assert CRD["spec"]["names"]["shortNames"] == ["vcp"]
