"""The CRD on a real API server: what it refuses, with which words, and what people see of it."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.apiserver.server import Cluster, Document
from cluster.errors import Refused

CRD = yaml.safe_load((Path(__file__).parents[2] / "deploy" / "crds" / "gatewayclassparameters.yaml").read_text())
PATH = "/apis/gateway.varnish-software.com/v1alpha1/gatewayclassparameters"

COMPLETE: Document = {
    "image": "registry.example/gateway:v1",
    "userVCLConfigMapRef": {"name": "vcl", "namespace": "default", "key": "user.vcl"},
    "varnishdExtraArgs": ["-p", "thread_pools=1"],
    "logging": {"mode": "varnishncsa", "format": "%h %s", "extraArgs": ["-q", "x"], "image": "registry.example/log"},
    "metrics": {"cachedRoutes": 500},
    "extraVolumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}],
    "extraVolumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
    "extraInitContainers": [{"name": "init", "image": "registry.example/init", "command": ["true"]}],
    "resources": {"requests": {"cpu": 1, "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
    "autoscaling": {"minReplicas": 2, "maxReplicas": 4, "targetCPUUtilizationPercentage": 70},
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "podAnnotations": {"example.com/a": "b"},
    "priorityClassName": "high",
    "podDisruptionBudget": {"maxUnavailable": "25%"},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "service": {
        "type": "LoadBalancer",
        "annotations": {"example.com/a": "b"},
        "labels": {"a": "b"},
        "loadBalancerClass": "example.com/lb",
        "loadBalancerSourceRanges": ["10.0.0.0/8", "fd00::/8"],
        "externalTrafficPolicy": "Local",
    },
    "listenerSets": {"ports": [{"first": 80}, {"first": 8000, "last": 8999}]},
    "forwarding": {"trustedRanges": ["10.0.0.0/8", "fd00::/8"]},
    "invalidation": {"methods": {"allowedSourceRanges": ["10.0.0.0/8", "fd00::/8"]}},
    "storage": {"type": "File", "size": "20Gi", "volume": "data"},
    "http2": {"plaintext": True},
    "paths": {"mergeSlashes": True, "reject": ["%2F", "%5C", "..;"]},
    "shares": {
        "namespace": 60,
        "route": 40,
        "backend": 50,
        "webSockets": 10,
        "routeConnections": 200,
        "backendConnections": 500,
    },
}

VOLUME = {"name": "data", "emptyDir": {}}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}

BAD: list[tuple[Document, str]] = [
    ({"http2": {"plaintext": "yes"}}, "spec.http2.plaintext in body must be of type boolean"),
    ({"storage": {"type": "Tape"}}, 'spec.storage.type: Unsupported value: "Tape"'),
    ({"storage": {"size": "91%"}}, "spec.storage.size in body should match"),
    ({"storage": {"type": "File"}}, "a file needs an amount as its size, such as 20Gi"),
    ({"storage": {"type": "File", "size": "50%"}}, "a file needs an amount as its size, such as 20Gi"),
    ({"storage": {"size": "1Gi", "volume": "data"}}, "only a file has a volume; remove it, or write type File"),
    (
        {"storage": {"type": "File", "size": "1Gi", "volume": "disk"}, "extraVolumes": [{"name": "data"}]},
        "the volume of storage is none of extraVolumes; add it there",
    ),
    ({"image": ""}, "spec.image in body should be at least 1 chars long"),
    ({"image": "x" * 513}, "spec.image: Too long: may not be more than 512"),
    ({"userVCLConfigMapRef": {"namespace": "default"}}, "spec.userVCLConfigMapRef.name: Required value"),
    ({"userVCLConfigMapRef": {"name": "vcl"}}, "spec.userVCLConfigMapRef.namespace: Required value"),
    ({"userVCLConfigMapRef": {"name": "vcl", "namespace": "d", "key": "a/b"}}, "spec.userVCLConfigMapRef.key in body"),
    ({"varnishdExtraArgs": ["-p", "-f/x"]}, "-M, -S, -F, -f and -n belong to the gateway; remove them"),
    ({"varnishdExtraArgs": ["-n"]}, "-M, -S, -F, -f and -n belong to the gateway; remove them"),
    ({"varnishdExtraArgs": ["a;b"]}, "a semicolon separates arguments and can't be part of one; remove it"),
    ({"varnishdExtraArgs": [""]}, "spec.varnishdExtraArgs[0] in body should be at least 1 chars long"),
    ({"logging": {}}, "spec.logging.mode: Required value"),
    ({"logging": {"mode": "loud"}}, 'spec.logging.mode: Unsupported value: "loud"'),
    ({"logging": {"mode": "varnishlog", "format": "%h"}}, "format is for the mode varnishncsa alone"),
    ({"extraVolumes": [VOLUME, VOLUME]}, "spec.extraVolumes[1]: Duplicate value"),
    ({"extraVolumes": [{"emptyDir": {}}]}, "spec.extraVolumes[0].name: Required value"),
    (
        {"extraVolumeMounts": [{"name": "data", "mountPath": "/data"}]},
        "every entry of extraVolumeMounts needs the volume of its name in extraVolumes",
    ),
    (
        {"extraVolumes": [VOLUME], "extraVolumeMounts": [{"name": "data", "mountPath": "data"}]},
        "spec.extraVolumeMounts[0].mountPath in body should match",
    ),
    ({"extraInitContainers": [{"name": "init"}]}, "spec.extraInitContainers[0].image: Required value"),
    ({"resources": {"requests": {"cpu": "much"}}}, "spec.resources.requests.cpu in body should match"),
    ({"resources": {"limits": {"memory": True}}}, "spec.resources.limits.memory"),
    ({"replicas": -1}, "spec.replicas in body should be greater than or equal to 0"),
    ({"replicas": "two"}, "spec.replicas in body must be of type integer"),
    ({"replicas": 2, "autoscaling": {"maxReplicas": 3}}, "replicas and autoscaling exclude each other; remove one"),
    ({"autoscaling": {}}, "spec.autoscaling.maxReplicas: Required value"),
    ({"autoscaling": {"minReplicas": 3, "maxReplicas": 2}}, "minReplicas must not be greater than maxReplicas"),
    ({"autoscaling": {"minReplicas": 0, "maxReplicas": 2}}, "spec.autoscaling.minReplicas in body should be greater"),
    (
        {"autoscaling": {"maxReplicas": 2, "targetCPUUtilizationPercentage": 0}},
        "spec.autoscaling.targetCPUUtilizationPercentage in body should be greater",
    ),
    ({"nodeSelector": {"a": 1}}, "spec.nodeSelector.a in body must be of type string"),
    ({"podAnnotations": {"a": True}}, "spec.podAnnotations.a in body must be of type string"),
    ({"priorityClassName": ""}, "spec.priorityClassName in body should be at least 1 chars long"),
    ({"podDisruptionBudget": {}}, "give either minAvailable or maxUnavailable"),
    ({"podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": 1}}, "give either minAvailable or maxUnavailable"),
    ({"podDisruptionBudget": {"minAvailable": "half"}}, "spec.podDisruptionBudget.minAvailable in body should match"),
    ({"topologySpreadConstraints": [{**SPREAD, "maxSkew": 0}]}, "spec.topologySpreadConstraints[0].maxSkew in body"),
    ({"topologySpreadConstraints": [SPREAD, SPREAD]}, "spec.topologySpreadConstraints[1]: Duplicate value"),
    ({"service": {"type": "ExternalName"}}, 'spec.service.type: Unsupported value: "ExternalName"'),
    ({"service": {"loadBalancerSourceRanges": ["anywhere"]}}, "spec.service.loadBalancerSourceRanges[0] in body"),
    (
        {"service": {"type": "ClusterIP", "loadBalancerClass": "x"}},
        "loadBalancerClass and loadBalancerSourceRanges are for the type LoadBalancer alone",
    ),
    (
        {"service": {"type": "ClusterIP", "externalTrafficPolicy": "Local"}},
        "externalTrafficPolicy has no meaning for the type ClusterIP",
    ),
    ({"listenerSets": {"ports": [{"first": 90, "last": 80}]}}, "last must not be less than first"),
    ({"listenerSets": {"ports": [{"last": 80}]}}, "spec.listenerSets.ports[0].first: Required value"),
    ({"shares": {"route": 101}}, "spec.shares.route in body should be less than or equal to 100"),
    ({"shares": {"backendConnections": 0}}, "spec.shares.backendConnections in body should be greater than or equal"),
    (
        {"forwarding": {"trustedHops": 1, "trustedRanges": ["10.0.0.0/8"]}},
        "proxies are trusted by number or by address; remove trustedHops or trustedRanges",
    ),
    ({"forwarding": {"trustedRanges": ["anyone"]}}, "spec.forwarding.trustedRanges[0] in body should match"),
    (
        {"invalidation": {"methods": {"allowedSourceRanges": ["anyone"]}}},
        "spec.invalidation.methods.allowedSourceRanges[0] in body should match",
    ),
    ({"paths": {"reject": ["%00"]}}, 'spec.paths.reject[0]: Unsupported value: "%00"'),
]


def parameters(name: str, spec: Document) -> Document:
    version = "gateway.varnish-software.com/v1alpha1"
    return {"apiVersion": version, "kind": "GatewayClassParameters", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def stored(cluster: Cluster) -> Iterator[Document]:
    """Have one object with every field."""
    yield cluster.request("POST", PATH, parameters("complete", COMPLETE))
    cluster.request("DELETE", f"{PATH}/complete")


def schema() -> Document:
    return CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def nodes(part: Any) -> Iterator[Document]:
    """Yield every map in a document."""
    if isinstance(part, dict):
        yield part
    for inside in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from nodes(inside)


# -- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(("spec", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_invalid_parameters_are_rejected_with_a_reason(cluster, spec, message):
    with pytest.raises(Refused) as refused:
        cluster.request("POST", f"{PATH}?dryRun=All", parameters("bad", spec))
    assert refused.value.status == 422
    assert message in str(refused.value).replace('\\"', '"')


def test_every_validation_rule_has_a_failing_example():
    rules = [rule for node in nodes(schema()) for rule in node.get("x-kubernetes-validations", ())]
    tried = " ".join(message for _, message in BAD)
    assert len(rules) >= 8
    assert [rule["message"] for rule in rules if rule["message"][:40] not in tried] == []


def test_unknown_field_is_rejected(cluster):
    with pytest.raises(Refused, match=r'unknown field \\"spec\.replica\\"'):
        cluster.request("POST", f"{PATH}?dryRun=All&fieldValidation=Strict", parameters("bad", {"replica": 2}))


# -- what is stored --------------------------------------------------------------------------


def test_complete_example_sets_every_field():
    assert schema()["properties"].keys() - COMPLETE.keys() == {"replicas"}  # excluded by autoscaling


def test_every_field_is_stored(stored):
    assert stored["spec"] == COMPLETE


def test_defaults(cluster):
    spec = {"userVCLConfigMapRef": {"name": "vcl", "namespace": "default"}, "autoscaling": {"maxReplicas": 2}}
    answer = cluster.request("POST", f"{PATH}?dryRun=All", parameters("defaults", spec))
    assert answer["spec"] == {
        "userVCLConfigMapRef": {"name": "vcl", "namespace": "default", "key": "user.vcl"},
        "autoscaling": {"minReplicas": 1, "maxReplicas": 2, "targetCPUUtilizationPercentage": 80},
        "service": {"type": "LoadBalancer"},
    }


def test_two_managers_share_a_list(cluster, stored):
    """Lists merge by their keys, so each can own a volume."""
    document = parameters("complete", {"extraVolumes": [{"name": "more", "emptyDir": {}}]})
    applied = cluster.apply(f"{PATH}/complete", document, manager="another", force=False)
    expected = copy.deepcopy(stored["spec"])
    expected["extraVolumes"].append({"name": "more", "emptyDir": {}})
    assert applied["spec"] == expected


# -- what people see -------------------------------------------------------------------------


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("name", ["gcp", "gatewayclassparameters", "gateway-api"])
def test_short_names_list_the_objects(cluster, name):
    assert "complete" in cluster.kubectl("get", name, "-o", "name")


@pytest.mark.usefixtures("stored")
def test_kubectl_get_prints_the_columns(cluster):
    header, row = cluster.kubectl("get", "gcp", "complete").splitlines()
    assert header.split("  ")[0] == "NAME"
    columns = [column["name"].upper() for column in CRD["spec"]["versions"][0]["additionalPrinterColumns"]]
    assert header.replace("USER VCL", "USER_VCL").split() == ["NAME", *(name.replace(" ", "_") for name in columns)]
    assert {"complete", "registry.example/gateway:v1", "vcl", "LoadBalancer"} <= set(row.split())


def test_kubectl_explains_every_field(cluster):
    text = cluster.kubectl("explain", "gcp.spec")
    for name in schema()["properties"]:
        assert f"{name}\t" in text
