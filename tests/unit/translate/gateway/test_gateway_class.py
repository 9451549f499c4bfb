from support.builders.objects import VARNISH_API, gateway, obj, view_of
from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.translate.gateway.gateway_class import (
    ASSUMED,
    CLUSTER_FEATURES,
    FEATURES,
    TranslatedClass,
    class_of,
    translate_class,
)
from varnish_gateway.translate.options import CONTROLLER, Options

PARAMETERS = obj("GatewayClassParameters", "p", group=VARNISH_API, spec={"varnishdExtraArgs": ["-p", "a=b"]})


def ask(*objects: api.Object, controller: str = CONTROLLER, ref: dict | None = None) -> TranslatedClass | None:
    spec = {"controllerName": controller} | ({"parametersRef": ref} if ref else {})
    asked = obj("GatewayClass", "varnish", metadata={"generation": 4}, spec=spec)
    return translate_class(Key("GatewayClass", "", "varnish"), Options(), view_of(asked, *objects))


def accepted(of: TranslatedClass | None) -> ir.Condition:
    (condition,) = of.status.conditions
    return condition


def test_a_class_of_ours():
    got = ask()
    assert accepted(got) == ir.Condition("Accepted", "True", "Accepted", "", 4)
    assert got.status.supported_features == FEATURES
    assert got.configured.parameters == ir.Parameters()


def test_features_are_sorted():
    for features in (FEATURES, CLUSTER_FEATURES):
        names = [feature["name"] for feature in features]
        assert names == sorted(names)


def test_a_cluster_has_more_features():
    asked = obj("GatewayClass", "varnish", spec={"controllerName": CONTROLLER})
    options = Options(addresses="load-balancer")
    got = translate_class(Key("GatewayClass", "", "varnish"), options, view_of(asked))
    assert got.status.supported_features == CLUSTER_FEATURES


def test_other_classes_of_our_controller_are_ours_unless_there_is_only_one():
    asked = obj("GatewayClass", "second", spec={"controllerName": CONTROLLER})
    key = Key("GatewayClass", "", "second")
    assert translate_class(key, Options(), view_of(asked)).is_served
    assert translate_class(key, Options(only_class=True, class_name="second"), view_of(asked)).is_served
    waiting = translate_class(key, Options(only_class=True), view_of(asked))
    assert not waiting.is_served
    assert (accepted(waiting).status, accepted(waiting).reason) == ("Unknown", "Pending")
    assert "GATEWAY_CLASS_NAME=second" in accepted(waiting).message


def test_a_class_of_another_controller():
    assert ask(controller="example.com/other") is None


def test_a_class_that_is_not_there():
    assert translate_class(Key("GatewayClass", "", "gone"), Options(), view_of()) is None


def test_class_has_the_parameters_that_it_names():
    ref = {"group": VARNISH_API, "kind": "GatewayClassParameters", "name": "p"}
    assert ask(PARAMETERS, ref=ref).configured.parameters == ir.Parameters(varnishd_extra_args=("-p", "a=b"))


def test_parameters_that_can_not_be_had():
    good = {"group": VARNISH_API, "kind": "GatewayClassParameters", "name": "p"}
    for objects, ref in (
        ((), good),
        ((PARAMETERS,), good | {"name": "gone"}),
        ((PARAMETERS,), good | {"namespace": "default"}),
        ((PARAMETERS,), good | {"kind": "ConfigMap"}),
        ((PARAMETERS,), good | {"group": ""}),
    ):
        got = ask(*objects, ref=ref)
        assert (accepted(got).status, accepted(got).reason) == ("False", "InvalidParameters")
        assert got.configured.parameters is None
        assert isinstance(got.configured.user_vcl, ir.UserVclUnavailable)


def test_class_is_assumed_only_while_there_is_no_gateway_class():
    options = Options(assume_class=True)
    assert class_of(gateway(), options, view_of()) is ASSUMED
    assert class_of(gateway(), Options(), view_of()) is None
    assert class_of(gateway(gatewayClassName="nginx"), options, view_of()) is None
    assert class_of(gateway(), options, view_of(obj("GatewayClass", "a", spec={"controllerName": "x"}))) is None
