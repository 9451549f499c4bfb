import pytest

from support.builders.objects import VARNISH_API, obj, view_of
from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.api.varnish import Autoscaling, Logging, ServiceParameters, SharesParameters
from varnish_gateway.translate.gateway.parameters import Configured, validate_parameters

REF = {"userVCLConfigMapRef": {"name": "vcl", "namespace": "team"}}


def ask(*objects: api.Object, **spec) -> Configured:
    return validate_parameters(obj("GatewayClassParameters", "p", group=VARNISH_API, spec=spec), view_of(*objects))


def vcl(**data: str) -> api.Object:
    return obj("ConfigMap", "vcl", "team", group="", data=data)


def test_empty_parameters_have_defaults():
    assert ask() == Configured(ir.Parameters())


def test_arguments_and_logging():
    got = ask(varnishdExtraArgs=["-p", "a=b"], logging={"mode": "varnishncsa", "format": "%r", "extraArgs": ["-b"]})
    assert got.parameters == ir.Parameters(
        varnishd_extra_args=("-p", "a=b"),
        logging=Logging(mode="varnishncsa", format="%r", extra_args=("-b",)),
    )


@pytest.mark.parametrize("argument", ["-M", "-S", "-F", "-f", "-n", "-n/tmp/x"])
def test_arguments_of_our_own(argument: str):
    got = ask(varnishdExtraArgs=["-p", "a=b", argument])
    assert got.problem.reason == "InvalidParameters"
    assert argument[:2] in got.problem.message
    assert got.parameters is None


def test_a_logging_mode_that_does_not_exist():
    assert "logging.mode" in ask(logging={"mode": "loud"}).problem.message


def test_user_vcl_names_its_source():
    got = ask(vcl(**{"user.vcl": "text"}), **REF)
    assert got.user_vcl == ir.UserVcl("ConfigMap team/vcl, key user.vcl", "text")
    assert got.problem is None


def test_user_vcl_that_can_not_be_had():
    view = view_of()
    missing = validate_parameters(obj("GatewayClassParameters", "p", group=VARNISH_API, spec=REF), view)
    assert isinstance(missing.user_vcl, ir.UserVclUnavailable)
    assert missing.problem.reason == "InvalidParameters"
    assert Key("ConfigMap", "team", "vcl") in view.dependencies
    assert "no key user.vcl" in ask(vcl(), **REF).problem.message


def test_everything_is_handed_on():
    spec = {
        "image": "example.com/gateway:1",
        "autoscaling": {"minReplicas": 2, "maxReplicas": 5, "targetCPUUtilizationPercentage": 50},
        "logging": {"mode": "varnishlog", "image": "example.com/log:1"},
        "resources": {"requests": {"cpu": "1"}},
        "podDisruptionBudget": {"minAvailable": 1},
        "topologySpreadConstraints": [{"maxSkew": 1}],
        "service": {"type": "NodePort", "labels": {"a": "b"}, "externalTrafficPolicy": "Local"},
        "affinity": {"nodeAffinity": {}},
        "tolerations": [{"key": "edge"}],
        "nodeSelector": {"pool": "edge"},
        "podAnnotations": {"a": "b"},
        "priorityClassName": "high",
        "extraVolumes": [{"name": "geo"}],
        "extraVolumeMounts": [{"name": "geo", "mountPath": "/geo"}],
        "extraInitContainers": [{"name": "first", "image": "example.com/first:1"}],
        "shares": {"namespace": 90, "webSockets": 40, "routeConnections": 100},
    }
    assert ask(**spec).parameters == ir.Parameters(
        image="example.com/gateway:1",
        autoscaling=Autoscaling(max_replicas=5, min_replicas=2, target_cpu_utilization=50),
        logging=Logging(mode="varnishlog", image="example.com/log:1"),
        resources={"requests": {"cpu": "1"}},
        pod_disruption_budget={"minAvailable": 1},
        topology_spread_constraints=({"maxSkew": 1},),
        service=ServiceParameters(type="NodePort", labels={"a": "b"}, external_traffic_policy="Local"),
        affinity={"nodeAffinity": {}},
        tolerations=({"key": "edge"},),
        node_selector={"pool": "edge"},
        pod_annotations={"a": "b"},
        priority_class_name="high",
        extra_volumes=({"name": "geo"},),
        extra_volume_mounts=({"name": "geo", "mountPath": "/geo"},),
        extra_init_containers=({"name": "first", "image": "example.com/first:1"},),
        shares=SharesParameters(namespace=90, web_sockets=40, route_connections=100),
    )


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"varnishdExtraArgs": ["a;b"]}, "varnishdExtraArgs: a;b holds a semicolon"),
        ({"replicas": 1, "autoscaling": {"maxReplicas": 2}}, "remove one of the two"),
        ({"autoscaling": {"minReplicas": 3, "maxReplicas": 2}}, "minReplicas is greater"),
        ({"autoscaling": {"maxReplicas": 2}, "resources": {"requests": {"memory": "1Gi"}}}, "resources.requests.cpu"),
        ({"extraVolumes": [{"name": "tmp"}]}, "extraVolumes: the name tmp"),
        ({"forwarding": {"trustedHops": 1, "trustedRanges": ["10.0.0.0/8"]}}, "remove trustedHops or trustedRanges"),
        ({"forwarding": {"trustedRanges": ["10.0.0.1/8"]}}, "10.0.0.1/8 is no range of addresses"),
        ({"forwarding": {"trustedRanges": ["10.0.0.1"]}}, "write 10.0.0.1/32"),
        (
            {"invalidation": {"methods": {"allowedSourceRanges": ["10.0.0.1"]}}},
            "invalidation.methods.allowedSourceRanges: 10.0.0.1 has no length; write 10.0.0.1/32",
        ),
    ],
)
def test_invalid_combination_is_a_problem(spec: dict, complaint: str):
    got = ask(**spec)
    assert got.problem.reason == "InvalidParameters"
    assert complaint in got.problem.message
    assert got.parameters is None


@pytest.mark.parametrize("resources", [None, {"requests": {"cpu": "1"}}, {"limits": {"cpu": "1"}}])
def test_autoscaling_with_a_request_for_cpu(resources: dict | None):
    spec = {"resources": resources} if resources else {}
    assert ask(autoscaling={"maxReplicas": 2}, **spec).problem is None
