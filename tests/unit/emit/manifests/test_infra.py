import msgspec
import pytest

from support.builders.shapes import INSTALLATION, LISTENER, parameters, shape
from varnish_gateway.api import Key
from varnish_gateway.api.varnish import ParametersSpec
from varnish_gateway.emit.manifests import GatewayShape, Installation, infra_hash, objects
from varnish_gateway.ir import wire

VOLUME = {"name": "data", "emptyDir": {}}
RESTARTS = {
    "image": "example.com/other:1",
    "varnishdExtraArgs": ["-p", "thread_pools=2"],
    "logging": {"mode": "varnishncsa"},
    "extraVolumes": [VOLUME],
    "extraInitContainers": [{"name": "first", "image": "example.com/first:1"}],
    "storage": {"size": "60%"},
    "http2": {"plaintext": True},
}
"""Fields of GatewayClassParameters that need a restart of varnishd."""
MOUNTS = {"extraVolumes": [VOLUME], "extraVolumeMounts": [{"name": "data", "mountPath": "/data"}]}
OTHERS = {
    "metrics": {"cachedRoutes": 9},
    "replicas": 3,
    "autoscaling": {"maxReplicas": 3},
    "userVCLConfigMapRef": {"name": "vcl", "namespace": "shop"},
    "resources": {"requests": {"cpu": "2"}},
    "podDisruptionBudget": {"minAvailable": 1},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    "service": {"type": "NodePort"},
    "affinity": {"nodeAffinity": {}},
    "tolerations": [{"key": "edge"}],
    "nodeSelector": {"pool": "edge"},
    "podAnnotations": {"a": "b"},
    "priorityClassName": "high",
    "forwarding": {"trustedHops": 1},
    "paths": {"mergeSlashes": True},
    "invalidation": {"methods": {"allowedSourceRanges": ["10.0.0.0/8"]}},
    "listenerSets": {"ports": [{"first": 80}]},
    "shares": {"route": 80},
}
NOT_IN_PODS = {
    "shares",
    "replicas",
    "autoscaling",
    "userVCLConfigMapRef",
    "podDisruptionBudget",
    "service",
    "forwarding",
    "paths",
    "invalidation",
    "listenerSets",
}


def hash_of(of: GatewayShape, installation: Installation = INSTALLATION) -> str:
    return infra_hash(of, installation)


def template(of: GatewayShape, installation: Installation = INSTALLATION) -> dict:
    return objects(of, installation)[Key("Deployment", "shop", "web-vgw")]["spec"]["template"]


def test_every_field_of_the_parameters_is_tried():
    fields = {field.encode_name for field in msgspec.structs.fields(ParametersSpec)}
    assert RESTARTS.keys() | MOUNTS.keys() | OTHERS.keys() == fields


@pytest.mark.parametrize("field", RESTARTS)
def test_input_that_varnishd_reads_at_its_start_changes_the_hash(field: str):
    assert hash_of(shape(parameters=parameters(**{field: RESTARTS[field]}))) != hash_of(shape())


def test_mounts_change_the_hash():
    without = parameters(extraVolumes=[VOLUME])
    assert hash_of(shape(parameters=parameters(**MOUNTS))) != hash_of(shape(parameters=without))


@pytest.mark.parametrize("part", [{"format": "%r"}, {"extraArgs": ["-b"]}, {"image": "example.com/log:1"}])
def test_every_part_of_logging_changes_the_hash(part: dict):
    plain = {"mode": "varnishncsa"}
    assert hash_of(shape(parameters=parameters(logging=plain | part))) != hash_of(
        shape(parameters=parameters(logging=plain))
    )


@pytest.mark.parametrize("field", OTHERS)
def test_no_other_field_changes_the_hash(field: str):
    changed = shape(parameters=parameters(**{field: OTHERS[field]}))
    assert hash_of(changed) == hash_of(shape())
    assert (template(changed) == template(shape())) == (field in NOT_IN_PODS)


@pytest.mark.parametrize(
    "listeners",
    [
        (),
        (wire.Listener(name="http", socket="http-81", port=81),),
        (LISTENER, wire.Listener(name="more", socket="http-81", port=81)),
        (wire.Listener(name="http", socket="https-80", port=80, scheme="https"),),
    ],
)
def test_sockets_change_the_hash(listeners: tuple[wire.Listener, ...]):
    assert hash_of(shape(listeners=listeners)) != hash_of(shape())


@pytest.mark.parametrize(
    "listeners",
    [
        (msgspec.structs.replace(LISTENER, name="other", hostname="a.example.com"),),
        (LISTENER, msgspec.structs.replace(LISTENER, name="other", hostname="a.example.com")),
    ],
)
def test_listeners_on_the_same_socket_do_not_touch_pods(listeners: tuple[wire.Listener, ...]):
    assert template(shape(listeners=listeners)) == template(shape())


def test_the_order_of_listeners_is_nothing():
    two = (LISTENER, wire.Listener(name="more", socket="http-81", port=81))
    assert template(shape(listeners=two)) == template(shape(listeners=two[::-1]))


@pytest.mark.parametrize(
    ("field", "value"),
    [("addresses", ("192.0.2.1",)), ("shards", 64)],
)
def test_routes_and_addresses_leave_the_hash_unchanged(field: str, value: object):
    assert template(shape(**{field: value})) == template(shape())


@pytest.mark.parametrize(("field", "value"), [("labels", {"a": "b"}), ("annotations", {"a": "b"}), ("uid", "2")])
def test_names_and_labels_do_not_change_the_hash(field: str, value: object):
    assert hash_of(shape(**{field: value})) == hash_of(shape())


@pytest.mark.parametrize(
    ("field", "value", "differs"),
    [
        ("image", "example.com/gateway:2", True),
        ("image_pull_secrets", ("registry",), True),
        ("chaperone_role", "other", False),
        ("log_level", "debug", False),
    ],
)
def test_settings_of_the_operator_reach_the_pods(field: str, value: object, differs: bool):
    changed = msgspec.structs.replace(INSTALLATION, **{field: value})
    assert (hash_of(shape(), changed) != hash_of(shape())) == differs


def test_the_operators_image_does_not_matter_to_a_class_with_its_own():
    own = shape(parameters=parameters(image="example.com/own:1"))
    assert hash_of(own, Installation(image="example.com/gateway:2")) == hash_of(own)


def test_the_hash_is_on_the_pod_template():
    assert template(shape())["metadata"]["annotations"]["varnish.io/infra-hash"] == hash_of(shape())
    assert len(hash_of(shape())) == 64


@pytest.mark.parametrize(
    ("spec", "known"),
    [
        pytest.param(
            {},
            "492449255c0ecf1bc982d8de50ea79bebfcd112a09939900d3bc1cc06618bfa3",
            id="without a log",
        ),
        pytest.param(
            {"http2": {"plaintext": False}},
            "492449255c0ecf1bc982d8de50ea79bebfcd112a09939900d3bc1cc06618bfa3",
            id="HTTP/2 without TLS off",
        ),
        pytest.param(
            {"logging": {"mode": "varnishlog"}},
            "e7d65c4d949ba7fffcc7ac9cb3d0e0cf9c88f82f2b01eabeb2325d356806e002",
            id="log with the default mode",
        ),
        pytest.param(
            {"logging": {"mode": "varnishncsa", "format": "%r"}},
            "6e429d6d0245b481da84169ddb8f761805be41a314d52f0c3925802734a18a35",
            id="log with a format",
        ),
        pytest.param(
            {"logging": {"mode": "varnishlog-json", "extraArgs": ["-b"], "image": "example.com/log:1"}},
            "b570791ca88943676e408ab75fd317efbfd02e1b0b91087feabcc71d53f961cb",
            id="log with arguments and an image",
        ),
    ],
)
def test_hash_is_that_of_earlier_versions(spec: dict, known: str):
    """Another one would replace every pod, and its cache, with the next version of the operator."""
    assert hash_of(shape(parameters=parameters(**msgspec.json.decode(msgspec.json.encode(spec))))) == known
