import msgspec
import pytest

from support.builders.shapes import INSTALLATION, LISTENER, parameters, shape
from varnish_gateway.api import Key
from varnish_gateway.emit import manifests, names
from varnish_gateway.emit.manifests import GatewayShape, bindings, objects
from varnish_gateway.ir import pod
from varnish_gateway.ir.arguments import PLAINTEXT_HTTP2

BACKENDS = ("shop", "other")
KINDS = {"ServiceAccount", "Role", "RoleBinding", "Service", "Deployment"}


def made(kind: str, of: GatewayShape) -> dict:
    return objects(of, INSTALLATION)[Key(kind, "shop", "web-vgw")]


def container(of: GatewayShape, name: str = pod.GATEWAY_CONTAINER) -> dict:
    running = made("Deployment", of)["spec"]["template"]["spec"]["containers"]
    return next(each for each in running if each["name"] == name)


def test_supported_kinds_are_listed():
    assert {key.kind for key in objects(shape(), INSTALLATION)} == KINDS
    asked = shape(parameters=parameters(podDisruptionBudget={"minAvailable": 1}, autoscaling={"maxReplicas": 2}))
    assert {key.kind for key in objects(asked, INSTALLATION)} == KINDS | {
        "PodDisruptionBudget",
        "HorizontalPodAutoscaler",
    }


def test_keys_are_those_of_the_manifests():
    of = shape()
    for key, manifest in {**objects(of, INSTALLATION), **bindings(of, BACKENDS, INSTALLATION)}.items():
        assert (key.kind, key.namespace, key.name) == (
            manifest["kind"],
            manifest["metadata"]["namespace"],
            manifest["metadata"]["name"],
        )


def test_the_same_shape_gives_the_same_bytes():
    one = shape(labels={"a": "1", "b": "2"})
    other = shape(labels={"b": "2", "a": "1"})
    encoded = [msgspec.json.encode(list(objects(each, INSTALLATION).values()), order="sorted") for each in (one, other)]
    assert encoded[0] == encoded[1]


def test_the_applied_hash_is_that_of_the_rest():
    plain = made("Service", shape())
    changed = made("Service", shape(addresses=("192.0.2.1",)))
    hashes = [manifest["metadata"]["annotations"][names.APPLIED_HASH] for manifest in (plain, changed)]
    assert hashes[0] != hashes[1]
    assert made("Role", shape()) == made("Role", shape(addresses=("192.0.2.1",)))


def test_objects_in_the_gateways_namespace_are_owned_by_it():
    of = shape()
    for manifest in (
        *objects(of, INSTALLATION).values(),
        *bindings(of, BACKENDS, INSTALLATION).values(),
        manifests.config_map(of, "", 1),
        manifests.shard_map(of, 1, b""),
    ):
        owners = manifest["metadata"].get("ownerReferences", [])
        assert [owner["uid"] for owner in owners] == (["1"] if manifest["metadata"]["namespace"] == "shop" else [])


def test_labels_and_annotations_of_ours_win_and_those_of_a_class_give_way():
    asked = parameters(service={"labels": {"a": "class", "b": "class"}, "annotations": {"a": "class", "b": "class"}})
    of = shape(
        labels={"a": "gateway", names.MANAGED_BY_LABEL: "somebody"},
        annotations={"a": "gateway", names.GATEWAY_ANNOTATION: "somebody"},
        parameters=asked,
    )
    metadata = made("Service", of)["metadata"]
    assert metadata["labels"].items() >= {"a": "gateway", "b": "class", names.MANAGED_BY_LABEL: names.OURS}.items()
    assert metadata["annotations"].items() >= {"a": "gateway", "b": "class", names.GATEWAY_ANNOTATION: "web"}.items()


def test_a_gateway_without_listeners_has_no_service():
    assert {key.kind for key in objects(shape(listeners=()), INSTALLATION)} == KINDS - {"Service"}


def test_listeners_that_share_a_socket_share_a_port():
    more = msgspec.structs.replace(LISTENER, name="more", hostname="a.example.com")
    ports = [{"name": "http-80", "port": 80, "targetPort": 80, "protocol": "TCP"}]
    assert made("Service", shape(listeners=(LISTENER, more)))["spec"]["ports"] == ports


@pytest.mark.parametrize(
    ("addresses", "type_", "asked"),
    [
        (("192.0.2.1",), "LoadBalancer", "192.0.2.1"),
        (("192.0.2.1", "192.0.2.2"), "LoadBalancer", None),
        (("192.0.2.1",), "ClusterIP", None),
        ((), "LoadBalancer", None),
    ],
)
def test_an_address_is_asked_of_a_load_balancer(addresses: tuple[str, ...], type_: str, asked: str | None):
    of = shape(addresses=addresses, parameters=parameters(service={"type": type_}))
    assert made("Service", of)["spec"].get("loadBalancerIP") == asked


@pytest.mark.parametrize(
    ("spec", "replicas"),
    [({}, 1), ({"replicas": 0}, 0), ({"replicas": 5}, 5), ({"autoscaling": {"maxReplicas": 3}}, None)],
)
def test_replicas_are_absent_with_autoscaling(spec: dict, replicas: int | None):
    assert made("Deployment", shape(parameters=parameters(**spec)))["spec"].get("replicas") == replicas


def test_resources_of_the_class_replace_the_defaults():
    assert container(shape())["resources"] == {"requests": {"cpu": "100m", "memory": "512Mi"}}
    limited = parameters(resources={"limits": {"memory": "64Mi", "cpu": 1}})
    assert container(shape(parameters=limited))["resources"] == {"limits": {"memory": "64Mi", "cpu": "1"}}


def test_the_role_names_shards_to_come():
    for shards, foreseen in ((1, 15), (8, 15), (16, 31), (256, 511)):
        rules = made("Role", shape(shards=shards))["rules"]
        assert rules[1]["resourceNames"] == [f"web-vcl-{number}" for number in range(1, foreseen + 1)]
        assert rules[1]["verbs"] == ["get"]


def test_only_the_chaperone_holds_a_token():
    of = shape(parameters=parameters(logging={"mode": "varnishlog"}))
    assert "api-access" in {mount["name"] for mount in container(of)["volumeMounts"]}
    assert {mount["name"] for mount in container(of, pod.LOG_CONTAINER)["volumeMounts"]} == {"varnish"}
    assert made("Deployment", of)["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    assert made("ServiceAccount", of)["automountServiceAccountToken"] is False


def test_every_mount_has_its_volume_and_every_name_is_known_to_translation():
    spec = made("Deployment", shape())["spec"]["template"]["spec"]
    volumes = {volume["name"] for volume in spec["volumes"]}
    assert volumes == {mount.volume for mount in pod.MOUNTS}
    assert {(mount["name"], mount["mountPath"]) for mount in container(shape())["volumeMounts"]} == set(pod.MOUNTS)


def test_private_keys_reach_no_disk():
    """The chaperone writes them below its work directory."""
    volumes = made("Deployment", shape())["spec"]["template"]["spec"]["volumes"]
    assert {"name": pod.WORK.volume, "emptyDir": {"medium": "Memory"}} in volumes


def test_http2_without_tls_comes_before_the_arguments_of_the_user():
    spec = {"http2": {"plaintext": True}, "varnishdExtraArgs": ["-p", "default_ttl=1"]}
    environment = {each["name"]: each.get("value") for each in container(shape(parameters=parameters(**spec)))["env"]}
    assert environment["VARNISHD_EXTRA_ARGS"] == ";".join((*PLAINTEXT_HTTP2, "-p", "default_ttl=1"))


def test_environment_of_the_gateway_container():
    environment = {each["name"]: each.get("value") for each in container(shape())["env"]}
    assert environment == {
        "CONFIGMAP_NAME": "web-vcl",
        "GATEWAY_NAME": "web",
        "HEALTH_ADDR": ":8081",
        "LOG_LEVEL": "info",
        "NAMESPACE": "shop",
        "POD_NAME": None,
        "SECRET_NAME": "web-vgw-tls",
        "VARNISHD_READABLE": "none",
        "VARNISH_DIR": "/var/lib/varnish/varnishd",
        "VARNISH_LISTEN": "ghost-reload=127.0.0.1:1969,http;http-80=:80,http",
        "WORK_DIR": "/var/run/varnish",
    }


@pytest.mark.parametrize(
    ("metrics", "variable"), [({}, None), ({"cachedRoutes": 200}, None), ({"cachedRoutes": 0}, "0")]
)
def test_limit_of_cached_routes_reaches_the_chaperone_where_it_is_none_of_the_defaults(metrics, variable):
    """A variable for the default would replace every pod."""
    of = shape(parameters=parameters(metrics=metrics))
    environment = {each["name"]: each.get("value") for each in container(of)["env"]}
    assert environment.get("METRICS_CACHED_ROUTES") == variable


def test_the_two_managers_write_different_parts_of_the_config_map():
    gateway_part = manifests.config_map(shape(), "vcl 4.1;", 7)
    route_part = manifests.routing_map(shape(), b"{}", None)
    assert gateway_part["data"].keys() == {"main.vcl"}
    assert gateway_part["metadata"]["annotations"]["varnish.io/gateway-generation"] == "7"
    assert route_part["data"].keys() == {"routing.json"}
    assert route_part["metadata"] == {"name": "web-vcl", "namespace": "shop"}
    assert manifests.routing_map(shape(), b"{}", b"[]")["data"] == {"routing.json": "{}", "shards.json": "[]"}
    assert manifests.shard_map(shape(), 2, b"{}")["metadata"]["name"] == "web-vcl-2"


def test_labels_and_annotations_of_a_gateway_stay_in_its_namespace():
    of = shape(labels={"team": "milk"}, annotations={"a": "b"})
    here, there = bindings(of, ("shop", "stock"), INSTALLATION).values()
    assert here["metadata"]["labels"]["team"] == "milk"
    assert here["metadata"]["annotations"]["a"] == "b"
    assert "team" not in there["metadata"]["labels"]
    assert "a" not in there["metadata"]["annotations"]
    assert there["metadata"]["labels"].items() >= names.labels("shop", "web", of.class_name).items()
