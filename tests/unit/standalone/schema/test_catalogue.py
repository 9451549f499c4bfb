"""The kinds that files may hold."""

import pytest

from varnish_gateway import errors
from varnish_gateway.decoding import TYPES
from varnish_gateway.standalone.schema import Catalogue, dotted

GATEWAY_API = "gateway.networking.k8s.io/v1"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue()


def test_exactly_the_decoded_kinds_have_a_schema(catalogue):
    assert catalogue.kinds.keys() == TYPES.keys()


def test_scope_matches_the_type(catalogue):
    assert {name: kind.namespaced for name, kind in catalogue.kinds.items()} == {
        name: kind.namespaced for name, kind in TYPES.items()
    }


def test_every_rule_of_every_kind_compiles(catalogue):
    assert {name: kind.unusable_rules for name, kind in catalogue.kinds.items() if kind.unusable_rules} == {}


def test_foreign_kind_is_not_found(catalogue):
    assert catalogue.find("apps/v1", "Deployment") is None
    assert catalogue.find("serving.knative.dev/v1", "Service") is None


@pytest.mark.parametrize(
    ("version", "kind", "message"),
    [
        ("gateway.networking.k8s.io/v1alpha2", "HTTPRoute", f"use {GATEWAY_API} or {GATEWAY_API}beta1"),
        (GATEWAY_API, "HTTPRoutes", 'unknown kind "HTTPRoutes"; did you mean "HTTPRoute"?'),
        ("v1", "Configmap", 'unknown kind "Configmap"; did you mean "ConfigMap"?'),
    ],
)
def test_misspelt_kind_or_version_is_rejected(catalogue, version, kind, message):
    with pytest.raises(errors.UnknownKind, match=message.replace("?", r"\?")):
        catalogue.find(version, kind)


def test_missing_schema_names_the_tool_that_writes_it(tmp_path):
    with pytest.raises(errors.BadSettings, match="fetch_schemas"):
        Catalogue(tmp_path)


def problems(catalogue: Catalogue, version: str, kind: str, **content: object) -> list[str]:
    document = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **content}
    return [f"{dotted(each.path)}: {each.message}" for each in catalogue.kinds[version, kind].check(document)]


PARAMETERS = ("gateway.varnish-software.com/v1alpha1", "GatewayClassParameters")


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({}, []),
        ({"varnishdExtraArgs": ["-p", "thread_pools=2"]}, []),
        (
            {"varnishdExtraArgs": ["-p", "x=1", "-n/tmp"]},
            ["spec.varnishdExtraArgs: -M, -S, -F, -f and -n belong to the gateway; remove them"],
        ),
        ({"podDisruptionBudget": {"minAvailable": "50%"}}, []),
        (
            {"podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": 1}},
            ["spec.podDisruptionBudget: give either minAvailable or maxUnavailable"],
        ),
        ({"podDisruptionBudget": {}}, ["spec.podDisruptionBudget: give either minAvailable or maxUnavailable"]),
        (
            {"logging": {"mode": "varnishlog", "format": "%h"}},
            ["spec.logging: format is for the mode varnishncsa alone"],
        ),
        ({"userVCLConfigMapRef": {"name": "a"}}, ["spec.userVCLConfigMapRef.namespace: is required"]),
        (
            {"service": {"type": "ClusterIP", "externalTrafficPolicy": "Local"}},
            ["spec.service: externalTrafficPolicy has no meaning for the type ClusterIP"],
        ),
    ],
)
def test_gateway_class_parameters_are_validated(catalogue, spec, found):
    assert problems(catalogue, *PARAMETERS, spec=spec) == found


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"ports": [{"port": 80}]}, []),
        ({"ports": [{"port": 80, "targetPort": "http"}], "selector": {"app": "x"}, "sessionAffinity": "None"}, []),
        (
            {"type": "ExternalName"},
            ["spec: a Service of the type ExternalName needs externalName: the host that it stands for"],
        ),
        ({"ports": [{"port": 80}, {"port": 81}]}, ["spec: ports need names where there are several"]),
        (
            {"ports": [{"prt": 80}]},
            ["spec.ports[0].port: is required", 'spec.ports[0].prt: unknown field; did you mean "port"?'],
        ),
    ],
)
def test_service_is_validated(catalogue, spec, found):
    assert problems(catalogue, "v1", "Service", spec=spec) == found


def test_endpoint_slice_needs_its_service_and_addresses(catalogue):
    labels = {"metadata": {"name": "x", "labels": {"kubernetes.io/service-name": "x"}}}
    good = {"addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.1"]}], "ports": [{"port": 80}]}
    kind = ("discovery.k8s.io/v1", "EndpointSlice")
    assert problems(catalogue, *kind, **good, **labels) == []
    assert problems(catalogue, *kind, **good) == [
        ": needs the label kubernetes.io/service-name: it says which Service these endpoints belong to"
    ]
    bad = {**good, "endpoints": [{"addresses": ["localhost"]}]}
    assert problems(catalogue, *kind, **bad, **labels) == [
        ": an address is not an IP address; write IP addresses, or use a Service of the type ExternalName"
    ]
