"""The CRD of GatewayClassParameters on a real API server: what it takes, refuses and shows."""

from collections.abc import Iterator

import pytest

from cluster.apiserver.server import Cluster
from cluster.errors import Refused

PATH = "/apis/gateway.varnish-software.com/v1alpha1/gatewayclassparameters"
VOLUME = {"name": "v", "emptyDir": {}}


@pytest.fixture(autouse=True)
def tidy(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.request("DELETE", PATH)


def stored(cluster: Cluster, **spec) -> dict:
    document = {"apiVersion": "gateway.varnish-software.com/v1alpha1", "kind": "GatewayClassParameters"}
    return cluster.request("POST", PATH, {**document, "metadata": {"name": "p"}, "spec": spec})["spec"]


def test_defaults(cluster: Cluster) -> None:
    assert stored(cluster, autoscaling={"maxReplicas": 3}, userVCLConfigMapRef={"name": "n", "namespace": "ns"}) == {
        "autoscaling": {"minReplicas": 1, "maxReplicas": 3, "targetCPUUtilizationPercentage": 80},
        "service": {"type": "LoadBalancer"},
        "userVCLConfigMapRef": {"name": "n", "namespace": "ns", "key": "user.vcl"},
    }


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"replicas": 2, "autoscaling": {"maxReplicas": 3}}, "exclude each other"),
        ({"autoscaling": {"minReplicas": 4, "maxReplicas": 3}}, "must not be greater"),
        ({"autoscaling": {"minReplicas": 1}}, "maxReplicas"),
        ({"replicas": -1}, "greater than or equal to 0"),
        ({"varnishdExtraArgs": ["-F"]}, "belong to the gateway"),
        ({"varnishdExtraArgs": ["a;b"]}, "semicolon"),
        ({"logging": {"mode": "loud"}}, "Unsupported value"),
        ({"logging": {"mode": "varnishlog", "format": "%r"}}, "varnishncsa alone"),
        ({"extraVolumes": [VOLUME, VOLUME]}, "Duplicate value"),
        ({"extraVolumes": [VOLUME], "extraVolumeMounts": [{"name": "w", "mountPath": "/w"}]}, "needs the volume"),
        ({"extraVolumeMounts": [{"name": "w", "mountPath": "/w"}]}, "needs the volume"),
        ({"extraVolumes": [VOLUME], "extraVolumeMounts": [{"name": "v", "mountPath": "w"}]}, "mountPath"),
        ({"extraInitContainers": [{"name": "a", "image": "x"}, {"name": "a", "image": "y"}]}, "Duplicate value"),
        ({"resources": {"requests": {"cpu": "much"}}}, "requests.cpu"),
        ({"podDisruptionBudget": {}}, "either minAvailable or maxUnavailable"),
        ({"podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": 1}}, "either minAvailable or maxUnavailable"),
        ({"podDisruptionBudget": {"minAvailable": "half"}}, "minAvailable"),
        ({"service": {"type": "ClusterIP", "loadBalancerClass": "a.b/c"}}, "LoadBalancer alone"),
        ({"service": {"type": "ClusterIP", "externalTrafficPolicy": "Local"}}, "no meaning"),
        ({"service": {"loadBalancerSourceRanges": ["everywhere"]}}, "loadBalancerSourceRanges"),
        ({"service": {"type": "ExternalName"}}, "Unsupported value"),
    ],
)
def test_invalid_parameters_are_rejected(cluster: Cluster, spec: dict, complaint: str) -> None:
    with pytest.raises(Refused, match=complaint) as refused:
        stored(cluster, **spec)
    assert refused.value.status == 422


def test_kubectl_lists_parameters_by_short_name(cluster: Cluster) -> None:
    stored(
        cluster,
        image="registry.example.com/gateway:2",
        replicas=3,
        userVCLConfigMapRef={"name": "vcl", "namespace": "shop"},
        service={"type": "NodePort"},
    )
    head, line = cluster.kubectl("get", "gcp").splitlines()
    assert head.split() == ["NAME", "IMAGE", "REPLICAS", "USER", "VCL", "SERVICE", "AGE"]
    assert line.split()[:-1] == ["p", "registry.example.com/gateway:2", "3", "vcl", "NodePort"]
