from support.builders.objects import VARNISH_API, obj
from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.translate.gateway.parameter_use import ParameterUse

MINE, OTHER = (Key("GatewayClassParameters", "", name) for name in ("mine", "other"))
CLASS = Key("GatewayClass", "", "varnish")


def parameters(name: str) -> api.Object:
    return obj("GatewayClassParameters", name, group=VARNISH_API, spec={})


def class_with(name: str) -> api.Object:
    ref = {"group": VARNISH_API, "kind": "GatewayClassParameters", "name": name}
    return obj("GatewayClass", "varnish", spec={"controllerName": "x", "parametersRef": ref})


def test_parameters_are_reported_when_they_become_unreferenced():
    use = ParameterUse()
    assert use.update(MINE, parameters("mine")) == {MINE}
    assert use.update(CLASS, class_with("mine")) == set()
    assert use.unreferenced == set()
    assert use.update(OTHER, parameters("other")) == {OTHER}
    assert use.update(CLASS, class_with("other")) == {MINE}
    assert use.update(CLASS, None) == {OTHER}
    assert use.unreferenced == {MINE, OTHER}
    assert use.update(MINE, None) == set()
    assert use.unreferenced == {OTHER}


def test_other_kinds_reference_nothing():
    use = ParameterUse()
    use.update(MINE, parameters("mine"))
    assert use.update(Key("Service", "default", "mine"), obj("Service", "mine", group="")) == set()
    assert use.unreferenced == {MINE}
