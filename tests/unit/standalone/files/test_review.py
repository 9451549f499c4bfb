"""What valid objects say in vain."""

import msgspec
import pytest

from varnish_gateway.api.varnish import ParametersSpec
from varnish_gateway.standalone.files.manifests import read_manifest
from varnish_gateway.standalone.files.objects import Objects
from varnish_gateway.standalone.files.review import HONOURED
from varnish_gateway.standalone.schema import Catalogue

CATALOGUE = Catalogue()
ROUTE = """
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: tea}
spec: {rules: [{backendRefs: [{name: tea, port: %d}]}]}
"""
SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: tea}
spec: {ports: [{name: http, port: 80}, {name: other, port: 81}]}
"""
SLICE = """
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: tea-1, labels: {kubernetes.io/service-name: tea}}
addressType: IPv4
endpoints: [{addresses: [127.0.0.1]}]
ports: [{name: %s, port: 8080}]
"""
PARAMETERS = """
apiVersion: gateway.varnish-software.com/v1alpha1
kind: GatewayClassParameters
metadata: {name: mine}
spec: %s
"""
CLASS = """
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: varnish}
spec:
  controllerName: varnish-software.com/gateway
  parametersRef: {group: gateway.varnish-software.com, kind: GatewayClassParameters, name: %s}
"""


class Reviewed:
    """Files, with what was reported when they last changed."""

    def __init__(self) -> None:
        self.objects = Objects()

    def update(self, **files: str | None) -> list[str]:
        """Change files; return the findings that are new."""
        changes = self.objects.update(
            {
                f"{name}.yaml": None if text is None else read_manifest(f"{name}.yaml", text.encode(), CATALOGUE)
                for name, text in files.items()
            }
        )
        assert changes.complaints == []
        return list(map(str, changes.ignored))

    @property
    def findings(self) -> list[str]:
        return list(map(str, self.objects.findings))


@pytest.fixture
def files() -> Reviewed:
    return Reviewed()


def test_service_of_a_route_without_endpoints_is_found_once(files):
    missing = (
        "service.yaml:2: Service default/tea: has no endpoints: no EndpointSlice has the label"
        " kubernetes.io/service-name: tea; its routes answer 503"
    )
    assert files.update(service=SERVICE) == [], "no route uses it"
    assert files.update(route=ROUTE % 80) == [missing]
    assert files.update(route=ROUTE % 81) == []
    assert files.findings == [missing]
    files.update(slice=SLICE % "other")
    assert files.findings == []
    assert files.update(slice=None) == [missing]
    files.update(route=None)
    assert files.findings == []


def test_port_name_that_no_endpoint_slice_has_is_found_where_a_route_uses_it(files):
    (finding,) = files.update(service=SERVICE, slice=SLICE % "htp", route=ROUTE % 80)
    assert finding == (
        'service.yaml:2: Service default/tea: port 80 is named "http",'
        ' and no port of its EndpointSlices is called so; did you mean "htp"?'
    )
    files.update(slice=SLICE % "http")
    assert files.findings == []


def test_external_name_needs_no_endpoints(files):
    external = SERVICE.replace("spec: {", "spec: {type: ExternalName, externalName: localhost, ")
    assert files.update(service=external, route=ROUTE % 80) == []


def test_parameters_that_no_class_references_are_found(files):
    unused = (
        "parameters.yaml:2: GatewayClassParameters mine:"
        " has no effect: no GatewayClass references it in spec.parametersRef"
    )
    assert files.update(parameters=PARAMETERS % "{}") == [unused]
    assert files.update(gatewayclass=CLASS % "other") == []
    assert files.findings == [unused]
    files.update(gatewayclass=CLASS % "mine")
    assert files.findings == []


def test_honoured_parameters_exist():
    """Every other field is reported, so a field that is added is never ignored in silence."""
    assert {field.name for field in msgspec.structs.fields(ParametersSpec)} >= HONOURED


def test_parameters_of_pods_are_found(files):
    text = PARAMETERS % "{replicas: 3, podAnnotations: {a: b}, varnishdExtraArgs: [-pa=b], http2: {plaintext: true}}"
    (finding,) = files.update(parameters=text, gatewayclass=CLASS % "mine")
    assert finding == (
        "parameters.yaml:2: GatewayClassParameters mine:"
        " spec.replicas, spec.podAnnotations: no effect on one machine; vgw run has no pods"
    )
