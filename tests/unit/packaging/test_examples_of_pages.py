"""Manifests in docs/ are what the CRDs take, and parameters what the operator accepts."""

import re
from pathlib import Path

import pytest
import yaml

from varnish_gateway import api
from varnish_gateway.decoding import decode
from varnish_gateway.standalone.schema import Catalogue
from varnish_gateway.translate import Translator

DOCS = Path(__file__).parents[3] / "docs"
CATALOGUE = Catalogue()


def documents():
    """Yield every manifest in docs/ of a kind that we read; pieces of one are left out."""
    for page in sorted(DOCS.rglob("*.md")):
        for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            for document in yaml.safe_load_all(block):
                if isinstance(document, dict) and (document.get("apiVersion"), document.get("kind")) in CATALOGUE.kinds:
                    yield pytest.param(document, id=f"{page.stem}-{document['kind']}-{document['metadata']['name']}")


ALL = list(documents())


@pytest.mark.parametrize("document", ALL)
def test_a_manifest_fits_its_schema(document):
    assert CATALOGUE.kinds[document["apiVersion"], document["kind"]].check(document) == []


@pytest.mark.parametrize("document", [one for one in ALL if "Parameters" in one.id])
def test_parameters_are_accepted(document):
    parameters = decode(document)
    named = parameters.spec.user_vcl_config_map_ref
    metadata = {"name": named.name, "namespace": named.namespace} if named else {"name": "none", "namespace": "none"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"user.vcl": ""}}
    ref = {"group": "gateway.varnish-software.com", "kind": document["kind"], "name": document["metadata"]["name"]}
    its_class = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GatewayClass",
        "metadata": {"name": "varnish"},
        "spec": {"controllerName": "varnish-software.com/gateway", "parametersRef": ref},
    }
    objects = [parameters, decode(config_map), decode(its_class)]
    delta = Translator().update({api.key_of(one): one for one in objects})
    (accepted,) = delta.statuses[api.Key("GatewayClass", "", "varnish")].conditions
    assert accepted.status == "True", accepted.message
