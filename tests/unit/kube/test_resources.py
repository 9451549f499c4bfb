import pytest

from varnish_gateway.kube.resources import RESOURCES


@pytest.mark.parametrize(
    ("kind", "arguments", "path"),
    [
        ("ConfigMap", ("shop", "cm"), "/api/v1/namespaces/shop/configmaps/cm"),
        ("ConfigMap", ("shop",), "/api/v1/namespaces/shop/configmaps"),
        ("ConfigMap", (), "/api/v1/configmaps"),
        ("GatewayClass", ("ignored", "varnish"), "/apis/gateway.networking.k8s.io/v1/gatewayclasses/varnish"),
        ("HTTPRoute", ("a", "b", "status"), "/apis/gateway.networking.k8s.io/v1/namespaces/a/httproutes/b/status"),
        ("Role", ("a", "x:y"), "/apis/rbac.authorization.k8s.io/v1/namespaces/a/roles/x:y"),
        ("Secret", ("a", "../b?c#d"), "/api/v1/namespaces/a/secrets/..%2Fb%3Fc%23d"),
    ],
)
def test_paths_follow_from_the_kind(kind, arguments, path):
    assert RESOURCES[kind].path(*arguments) == path


def test_every_resource_is_found_by_its_kind():
    assert all(kind == resource.kind for kind, resource in RESOURCES.items())


def test_api_version_is_written_as_in_documents():
    assert RESOURCES["Pod"].api_version == "v1"
    assert RESOURCES["Deployment"].api_version == "apps/v1"
