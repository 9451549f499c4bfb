"""Manifests on a real API server: it accepts them, and the stored objects cover the desired ones.

Each golden case ``manifests-…`` is brought into a namespace of the cluster, so that schema,
defaults and CEL of the real thing stand between what a user writes and what we make of it.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cluster.apiserver.server import Cluster
from cluster.errors import Refused
from support.builders.golden_manifests import INSTALLATION, documents, shape_of
from varnish_gateway import api, ir
from varnish_gateway.api.varnish import ServiceParameters
from varnish_gateway.decoding import decode
from varnish_gateway.emit import manifests
from varnish_gateway.emit.manifests import GatewayShape, Installation, covers
from varnish_gateway.emit.names import GATEWAY_MANAGER, ROUTE_MANAGER, owned_selector
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.resources import RESOURCES

CASES = sorted((Path(__file__).parents[1] / "golden").glob("manifests-*/in.yaml"))
EVERYTHING, MINIMAL = (
    next(case for case in CASES if case.parent.name == f"manifests-{name}") for name in ("everything", "minimal")
)
SLICES = {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]}
CLUSTER_SCOPED = [
    document for case in CASES for document in documents(case) if not RESOURCES[document["kind"]].namespaced
]


def stored(cluster: Cluster, namespace: str, case: Path) -> list[api.Object]:
    """Have the API server store the objects of a case, in the namespace, and return them as it gives them back."""
    objects = []
    for document in documents(case):
        metadata, resource = document["metadata"], RESOURCES[document["kind"]]
        where = namespace if resource.namespaced else ""
        metadata = {"name": metadata["name"], **({"namespace": where} if where else {})}
        reference = document.get("spec", {}).get("userVCLConfigMapRef", {})
        if reference:
            reference["namespace"] = namespace
        answer = cluster.apply(resource.path(where, metadata["name"]), document | {"metadata": metadata})
        objects.append(decode(answer))
    return objects


def shape_in(cluster: Cluster, namespace: str, case: Path) -> GatewayShape:
    return shape_of(stored(cluster, namespace, case))


@pytest.fixture(autouse=True)
def tidy(cluster: Cluster) -> Iterator[None]:
    """Delete what does not go with the namespace."""
    yield
    paths = {RESOURCES[document["kind"]].path(name=document["metadata"]["name"]) for document in CLUSTER_SCOPED}
    for path in filter(cluster.exists, sorted(paths)):
        cluster.request("DELETE", path)
    ours = owned_selector("varnish").replace("=", "%3D")
    cluster.request("DELETE", f"{RESOURCES['RoleBinding'].path('default')}?labelSelector={ours}")


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.parent.name)
async def test_applied_manifests_are_covered_by_the_stored_objects(
    cluster: Cluster, client: Client, namespace: str, case: Path
) -> None:
    desired = all_of(shape_in(cluster, namespace, case))
    for manifest, manager in desired:
        rehearsed = msgspec.json.decode(await client.apply(manifest, manager=manager, dry_run=True))
        assert covers(rehearsed, manifest)
    for manifest, manager in desired:
        answer = msgspec.json.decode(await client.apply(manifest, manager=manager))
        assert covers(answer, manifest)


async def test_the_same_apply_changes_nothing(cluster: Cluster, client: Client, namespace: str) -> None:
    desired = all_of(shape_in(cluster, namespace, EVERYTHING))
    versions: list[dict[tuple[str, ...], str]] = []
    for _ in range(2):
        versions.append({})
        for manifest, manager in desired:
            metadata = msgspec.json.decode(await client.apply(manifest, manager=manager))["metadata"]
            versions[-1][manifest["kind"], metadata["namespace"], metadata["name"]] = metadata["resourceVersion"]
    assert versions[0] == versions[1]


def all_of(shape: GatewayShape, installation: Installation = INSTALLATION) -> list[tuple[dict, str]]:
    """Return every manifest of a Gateway with its field manager."""
    where = (shape.namespace, "default")
    return [
        *((manifest, GATEWAY_MANAGER) for manifest in manifests.objects(shape, installation).values()),
        *((manifest, GATEWAY_MANAGER) for manifest in manifests.bindings(shape, where, installation).values()),
        (manifests.config_map(shape, "vcl 4.1;\n", 3), GATEWAY_MANAGER),
        (manifests.routing_map(shape, b"{}", b"{}"), ROUTE_MANAGER),
        (manifests.shard_map(shape, 1, b"{}"), ROUTE_MANAGER),
    ]


async def test_a_changed_object_is_not_covered(cluster: Cluster, client: Client, namespace: str) -> None:
    for key, manifest in manifests.objects(shape_in(cluster, namespace, EVERYTHING), INSTALLATION).items():
        await client.apply(manifest, manager=GATEWAY_MANAGER)
        change = {"metadata": {"labels": {"team": "another"}}}
        assert not covers(cluster.merge(RESOURCES[key.kind].path(key.namespace, key.name), change), manifest)


async def test_fields_added_by_others_are_kept(cluster: Cluster, client: Client, namespace: str) -> None:
    shape = shape_in(cluster, namespace, EVERYTHING)
    desired = manifests.objects(shape, INSTALLATION)[api.Key("Service", namespace, "web-vgw")]
    await client.apply(desired, manager=GATEWAY_MANAGER)
    cluster.merge(
        RESOURCES["Service"].path(namespace, "web-vgw"), {"metadata": {"annotations": {"cloud.example.com/id": "lb-1"}}}
    )
    answer = msgspec.json.decode(await client.apply(desired, manager=GATEWAY_MANAGER))
    assert answer["metadata"]["annotations"]["cloud.example.com/id"] == "lb-1"
    assert covers(answer, desired)


async def test_fields_no_longer_applied_are_removed(cluster: Cluster, client: Client, namespace: str) -> None:
    full = shape_in(cluster, namespace, EVERYTHING)
    bare = msgspec.structs.replace(full, parameters=ir.Parameters(service=ServiceParameters(type="ClusterIP")))
    live = {}
    for shape in (full, bare):
        desired = manifests.objects(shape, INSTALLATION)
        for kind in ("Service", "Deployment"):
            manifest = desired[api.Key(kind, namespace, "web-vgw")]
            live[kind] = msgspec.json.decode(await client.apply(manifest, manager=GATEWAY_MANAGER))
            assert covers(live[kind], manifest)
    pod = live["Deployment"]["spec"]["template"]["spec"]
    assert live["Deployment"]["spec"]["replicas"] == 1
    assert [container["name"] for container in pod["containers"]] == ["gateway"]
    assert {volume["name"] for volume in pod["volumes"]} == {"work", "varnish", "tmp", "api-access"}
    assert not {"initContainers", "tolerations", "affinity", "topologySpreadConstraints"} & pod.keys()
    assert not {"loadBalancerIP", "loadBalancerClass", "loadBalancerSourceRanges"} & live["Service"]["spec"].keys()


@pytest.fixture
def slice_reader(cluster: Cluster, namespace: str) -> Iterator[str]:
    """Give a ClusterRole that reads EndpointSlices, under a name of its own."""
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{namespace}"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": namespace}}
    cluster.apply(path, role | {"rules": [SLICES]})
    yield namespace
    cluster.request("DELETE", path)


async def test_the_role_lets_a_chaperone_read_its_own_and_nothing_else(
    cluster: Cluster, client: Client, namespace: str, slice_reader: str
) -> None:
    installation = msgspec.structs.replace(INSTALLATION, chaperone_role=slice_reader)
    for manifest, manager in all_of(shape_in(cluster, namespace, MINIMAL), installation):
        await client.apply(manifest, manager=manager)
    token = cluster.service_account_token(namespace, "web-vgw")
    maps, secrets = f"/api/v1/namespaces/{namespace}/configmaps", f"/api/v1/namespaces/{namespace}/secrets"
    own = "fieldSelector=metadata.name%3D"
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    for path in (f"{maps}/web-vcl", f"{maps}?{own}web-vcl", f"{maps}/web-vcl-1", f"{secrets}?{own}web-vgw-tls", slices):
        cluster.request("GET", path, token=token)
    for path in (
        maps,
        secrets,
        f"{maps}?{own}web-vcl-1",
        f"{maps}/web-vcl-16",
        f"{maps}/other",
        f"{secrets}/other",
        f"/api/v1/namespaces/{namespace}/pods",
        "/apis/discovery.k8s.io/v1/endpointslices",
        "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices",
    ):
        with pytest.raises(Refused, match="403"):
            cluster.request("GET", path, token=token)
    with pytest.raises(Refused, match="403"):
        cluster.request("PATCH", f"{maps}/web-vcl", {}, content_type="application/merge-patch+json", token=token)


@pytest.mark.parametrize("name", ["manifests-minimal", "manifests-access-log"])
def test_pods_meet_the_strictest_pod_security_standard(cluster: Cluster, namespace: str, name: str) -> None:
    shape = shape_in(cluster, namespace, CASES[[case.parent.name for case in CASES].index(name)])
    template = manifests.objects(shape, INSTALLATION)[api.Key("Deployment", namespace, "web-vgw")]["spec"]["template"]
    enforced = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    cluster.merge(f"/api/v1/namespaces/{namespace}", enforced)
    pod = {"metadata": {"name": "pod", **template["metadata"]}, "spec": template["spec"]}
    pods = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    cluster.request("POST", pods, pod)
    rooted = msgspec.json.decode(msgspec.json.encode(pod))
    del rooted["spec"]["securityContext"]["runAsNonRoot"]
    with pytest.raises(Refused, match="runAsNonRoot"):
        cluster.request("POST", pods, rooted)
