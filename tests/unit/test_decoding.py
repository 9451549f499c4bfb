import pytest
import yaml

from support.builders.objects import document
from varnish_gateway import api, errors
from varnish_gateway.decoding import TYPES, decode

MINIMAL = {
    "GatewayClass": {"spec": {"controllerName": "x"}},
    "Gateway": {"spec": {"gatewayClassName": "x", "listeners": []}},
    "HTTPRoute": {"spec": {}},
    "ListenerSet": {"spec": {"parentRef": {"name": "x"}}},
    "ReferenceGrant": {"spec": {"from": [], "to": []}},
    "BackendTLSPolicy": {"spec": {"targetRefs": []}},
    "VarnishCachePolicy": {"spec": {"targetRef": {"kind": "HTTPRoute", "name": "web"}}},
    "VarnishCacheInvalidation": {"spec": {"gatewayRef": {"name": "gw"}, "everything": True}},
    "EndpointSlice": {"addressType": "IPv4"},
}


@pytest.mark.parametrize(("version", "kind"), TYPES, ids=str)
def test_every_kind_decodes_to_its_type(version: str, kind: str):
    got = decode({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, **MINIMAL.get(kind, {})})
    assert type(got).__name__ == kind
    assert api.key_of(got).kind == kind


@pytest.mark.parametrize(
    "document",
    [
        {"apiVersion": "networking.istio.io/v1", "kind": "Gateway"},
        {"apiVersion": "apps/v1", "kind": "Deployment"},
        {"kind": "Service"},
        {},
    ],
    ids=str,
)
def test_foreign_kind_is_unknown(document: dict):
    with pytest.raises(errors.UnknownKind, match="does not read the kind"):
        decode(document)


def test_wrong_type_names_object_and_field():
    with pytest.raises(errors.BadDocument, match=r"Service web: .*ports\[0\]\.port"):
        decode(document("Service", "web", group="", spec={"ports": [{"port": "eighty"}]}))


def test_invalid_metadata_is_a_bad_document():
    with pytest.raises(errors.BadDocument, match="Service"):
        decode({"apiVersion": "v1", "kind": "Service", "metadata": "web"})


def test_unread_fields_are_ignored():
    assert decode(document("Service", "web", group="", spec={"sessionAffinity": "None"}, status={}))


def test_time_parsed_by_yaml_is_accepted():
    text = "{apiVersion: v1, kind: Namespace, metadata: {name: a, creationTimestamp: 1970-01-01T00:01:00Z}}"
    assert decode(yaml.safe_load(text)).created == 60
