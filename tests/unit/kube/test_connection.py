"""Every way to find an API server, with real files and real certificates."""

import base64
import ssl
from pathlib import Path

import pytest
import yaml

from cluster.openssl import create_self_signed
from varnish_gateway.errors import BadSettings
from varnish_gateway.kube.connection import connection


@pytest.fixture(scope="module")
def pem(tmp_path_factory) -> Path:
    """Give a directory with cert.pem and key.pem."""
    directory = tmp_path_factory.mktemp("pem")
    create_self_signed(directory)
    return directory


def write(path: Path, *, cluster=None, user=None, **more) -> Path:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1:6443/"} | (cluster or {})}],
        "users": [{"name": "u", "user": {"token": "secret"} if user is None else user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(content | more))
    return path


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


# -- kubeconfig -------------------------------------------------------------------------------


def test_kubeconfig_with_a_token_is_read(tmp_path):
    found = connection({}, kubeconfig=write(tmp_path / "config"))
    assert (found.server, found.token, found.namespace) == ("https://192.0.2.1:6443", "secret", "shop")
    assert found.ssl is not None
    assert found.token_file is None


def test_connection_is_printed_without_its_token(tmp_path):
    assert "secret" not in repr(connection({}, kubeconfig=write(tmp_path / "config")))


def test_paths_in_a_kubeconfig_are_relative_to_it(tmp_path, pem):
    (tmp_path / "ca.pem").write_bytes((pem / "cert.pem").read_bytes())
    config = write(tmp_path / "config", cluster={"certificate-authority": "ca.pem"}, user={"tokenFile": "token"})
    found = connection({}, kubeconfig=config)
    assert found.token_file == tmp_path / "token"
    assert len(found.ssl.get_ca_certs()) == 1


def test_inline_certificates_are_read(tmp_path, pem):
    config = write(
        tmp_path / "config",
        cluster={"certificate-authority-data": data(pem / "cert.pem")},
        user={"client-certificate-data": data(pem / "cert.pem"), "client-key-data": data(pem / "key.pem")},
    )
    found = connection({}, kubeconfig=config)
    assert len(found.ssl.get_ca_certs()) == 1
    assert found.token is None


def test_verification_can_be_disabled(tmp_path):
    config = write(tmp_path / "config", cluster={"insecure-skip-tls-verify": True})
    assert not connection({}, kubeconfig=config).ssl.check_hostname


def test_plain_http_has_no_tls(tmp_path):
    assert connection({}, kubeconfig=write(tmp_path / "c", cluster={"server": "http://127.0.0.1:8001"})).ssl is None


def test_context_can_be_chosen(tmp_path):
    contexts = [
        {"name": "x", "context": {"cluster": "c", "user": "u"}},
        {"name": "y", "context": {"cluster": "c"}},
    ]
    config = write(tmp_path / "config", contexts=contexts)
    assert connection({}, kubeconfig=config).token == "secret"
    chosen = connection({}, kubeconfig=config, context="y")
    assert (chosen.token, chosen.namespace) == (None, "default")


def test_first_of_several_kubeconfigs_wins(tmp_path):
    first = write(tmp_path / "first", user={"token": "first"}, clusters=[])
    second = write(tmp_path / "second", user={"token": "second"})
    found = connection({"KUBECONFIG": f"{tmp_path}/missing:{first}:{second}"})
    assert (found.token, found.server) == ("first", "https://192.0.2.1:6443")


def test_kubeconfig_in_the_home_directory_is_found(tmp_path):
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config")
    assert connection({"HOME": str(tmp_path)}).token == "secret"


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"user": {"exec": {"command": "aws"}}}, "needs exec, a plugin .*kubectl create token"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "needs auth-provider, a plugin"),
        ({"user": {"username": "me", "password": "x"}}, "has a password"),
        ({"cluster": {"proxy-url": "http://proxy"}}, "proxy-url"),
        ({"cluster": {"server": "unix:///x"}}, "not an http or https address"),
        ({"cluster": {"certificate-authority": "gone.pem"}}, r"can't read certificate-authority .*gone.pem"),
        ({"cluster": {"certificate-authority-data": "%%%"}}, "certificate-authority-data is not base64"),
        (
            {"cluster": {"certificate-authority-data": "aGVsbG8="}},
            "authority in the kubeconfig can't be used",
        ),
        ({"user": {"client-key-data": "aGVsbG8="}}, "only one of client-certificate and client-key"),
        ({"user": {"client-certificate-data": "eA==", "client-key-data": "eA=="}}, "client certificate can't be used"),
        ({"current-context": ""}, "has no current-context"),
        ({"current-context": "z"}, "has no context 'z'"),
        ({"clusters": None}, "has no cluster 'c'"),
        ({"users": []}, "has no user 'u'"),
    ],
)
def test_unusable_kubeconfig_names_the_field(tmp_path, config, why):
    with pytest.raises(BadSettings, match=why):
        connection({}, kubeconfig=write(tmp_path / "config", **config))


@pytest.mark.parametrize("content", ["{", "a list", "[]", b"\xff\xfe"])
def test_file_that_is_not_a_kubeconfig_is_rejected(tmp_path, content):
    path = tmp_path / "config"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadSettings, match="kubeconfig"):
        connection({}, kubeconfig=path)


@pytest.mark.parametrize("environment", [{"KUBECONFIG": "/nowhere/config"}, {"HOME": "/nowhere"}, {}])
def test_missing_kubeconfig_is_reported(environment):
    with pytest.raises(BadSettings, match=r"no API server.*set KUBECONFIG"):
        connection(environment)


def test_named_kubeconfig_must_exist(tmp_path):
    with pytest.raises(BadSettings, match="can't read the kubeconfig"):
        connection({"KUBECONFIG": str(write(tmp_path / "config"))}, kubeconfig=tmp_path / "gone")


# -- in a pod ---------------------------------------------------------------------------------


@pytest.fixture
def pod(tmp_path, pem) -> Path:
    (tmp_path / "token").write_text("from the pod")
    (tmp_path / "namespace").write_text("shop\n")
    (tmp_path / "ca.crt").write_bytes((pem / "cert.pem").read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_pod_uses_its_service_account(pod, host, server):
    found = connection({"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}, pod_files=pod)
    assert (found.server, found.token_file, found.namespace) == (server, pod / "token", "shop")
    assert len(found.ssl.get_ca_certs()) == 1


def test_kubeconfig_takes_precedence_over_the_service_account(pod):
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBECONFIG": str(write(pod / "config"))}
    assert connection(environment, pod_files=pod).token == "secret"


def test_pod_without_a_token_reports_what_to_mount(tmp_path):
    with pytest.raises(BadSettings, match="automountServiceAccountToken"):
        connection({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, pod_files=tmp_path)


# -- certificates of clusters ------------------------------------------------------------------


def test_authority_without_recent_extensions_is_trusted(tmp_path, pem):
    """Python 3.13 would refuse what every other client takes: an authority without key usage."""
    config = write(tmp_path / "config", cluster={"certificate-authority": str(pem / "cert.pem")})
    assert not connection({}, kubeconfig=config).ssl.verify_flags & ssl.VERIFY_X509_STRICT
