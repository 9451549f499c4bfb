"""What we ship applies on a real API server: deploy/ and the chart."""

import copy
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.apiserver.processes import BIN
from cluster.apiserver.server import Cluster, Document
from cluster.errors import Refused
from varnish_gateway.api.varnish import Logging
from varnish_gateway.emit.manifests.objects import objects
from varnish_gateway.emit.manifests.shape import GatewayShape, Installation
from varnish_gateway.ir import Parameters

ROOT = Path(__file__).parents[2]
CHART, DEPLOY = ROOT / "charts" / "varnish-gateway", ROOT / "deploy"
MAXIMAL = Path(__file__).parent / "maximal-values.yaml"
SYSTEM, SAMPLE = "varnish-gateway-system", "varnish-gateway-sample"
VERSION = "1.36.3"


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BIN / "helm", *arguments], capture_output=True, text=True, check=False)


def template(*arguments: str, release: str = "varnish-gateway") -> subprocess.CompletedProcess[str]:
    where = ("--namespace", SYSTEM, "--kube-version", VERSION)
    return helm("template", release, str(CHART), *where, *arguments)


def documents(text: str) -> list[Document]:
    return [document for document in yaml.safe_load_all(text) if document]


def rendered(*arguments: str, release: str = "varnish-gateway") -> dict[str, Document]:
    """Return what the chart comes to, by kind and name."""
    done = template(*arguments, release=release)
    assert done.returncode == 0, done.stderr
    return {f"{document['kind']}/{document['metadata']['name']}": document for document in documents(done.stdout)}


def shipped() -> list[Document]:
    return [document for path in sorted(DEPLOY.glob("*.yaml")) for document in documents(path.read_text())]


def accept(cluster: Cluster, document: Document) -> None:
    """Have the API server check an object without storing it; a field that it does not know is an error."""
    arguments = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts", "-f", "-")
    assert "serverside-applied" in cluster.kubectl(*arguments, stdin=json.dumps(document))


@pytest.fixture
def namespaces(cluster: Cluster) -> None:
    """Have the namespaces and CRDs for real: nothing can be checked inside what isn't there."""
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(DEPLOY / "00-prereqs.yaml"))
    sample = next(document for document in shipped() if document["metadata"]["name"] == SAMPLE)
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(sample))


# -- deploy/ ---------------------------------------------------------------------------------


def test_deploy_matches_the_rendered_chart():
    done = subprocess.run(
        ["python3", ROOT / "tools" / "render_deploy.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize(
    "document", shipped(), ids=lambda document: f"{document['kind']}-{document['metadata']['name']}"
)
def test_every_object_of_deploy_is_accepted(cluster, document):
    accept(cluster, document)


def gateway_deployment() -> Document:
    """Return what the operator makes for a Gateway of a class with an access log."""
    shape = GatewayShape(
        namespace=SAMPLE,
        name="cafe",
        uid="0",
        class_name="varnish",
        parameters=Parameters(logging=Logging(mode="varnishncsa")),
    )
    return next(m for m in objects(shape, Installation(image="gateway")).values() if m["kind"] == "Deployment")


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("name", ["varnish-gateway-operator", "cafe-backend", "cafe-vgw"])
def test_pods_keep_to_the_restricted_standard(cluster, name):
    """Both namespaces enforce it, and the API server checks pods, not Deployments."""
    deployments = [document for document in [*shipped(), gateway_deployment()] if document["kind"] == "Deployment"]
    (deployment,) = [document for document in deployments if document["metadata"]["name"] == name]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": deployment["metadata"]["namespace"]},
        "spec": copy.deepcopy(deployment["spec"]["template"]["spec"]),
    }
    accept(cluster, pod)
    pod["spec"]["containers"][-1]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(AssertionError, match='violates PodSecurity "restricted'):
        accept(cluster, pod)


# -- the chart -------------------------------------------------------------------------------


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("values", [(), ("--values", str(MAXIMAL))], ids=["default", "maximal"])
def test_everything_that_the_chart_renders_is_accepted(cluster, values):
    everything = rendered(*values, "--include-crds")
    assert len(everything) > 8
    for document in everything.values():
        if document["kind"] != "ServiceMonitor":  # its CRD is another project's
            accept(cluster, document)


def leaves(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value with its path; an empty map is a value too."""
    if isinstance(values, dict) and values:
        for name, value in values.items():
            yield from leaves(value, f"{path}.{name}".lstrip("."))
    else:
        yield path, values


def test_maximal_values_set_every_value():
    names = {path for path, _ in leaves(yaml.safe_load((CHART / "values.yaml").read_text()))}
    ours = [path for path, _ in leaves(yaml.safe_load(MAXIMAL.read_text()))]
    assert {name for name in names if not any(f"{path}.".startswith(f"{name}.") for path in ours)} == set()


def test_every_value_reaches_an_object():
    """Each text in the maximal values is found in what is rendered; a digest is used instead of a tag."""
    text = template("--values", str(MAXIMAL)).stdout
    for path, value in leaves(yaml.safe_load(MAXIMAL.read_text())):
        words = value if isinstance(value, list) else [value]
        for word in words:
            if isinstance(word, str) and not path.endswith(".tag"):
                assert word in text, path
    assert "v9" not in text


def test_values_shape_the_operator():
    deployment = rendered("--values", str(MAXIMAL))["Deployment/varnish-gateway-operator"]["spec"]
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert deployment["replicas"] == 3
    assert environment["GATEWAY_IMAGE"].startswith("registry.example/gateway@sha256:")
    assert environment["IMAGE_PULL_SECRETS"] == "first,second"
    assert environment["GATEWAY_CLASS_NAME"] == "maximal.example"
    assert environment["LEASE_SECONDS"] == "7"
    assert environment["ROLLOUTS_AT_ONCE"] == "20"
    assert environment["CHAPERONE_CLUSTER_ROLE"] == "maximal-chaperone"
    assert pod["imagePullSecrets"] == [{"name": "first"}, {"name": "second"}]
    assert pod["serviceAccountName"] == "maximal-account"


def operators_container(*arguments: str) -> Document:
    deployment = rendered(*arguments)["Deployment/varnish-gateway-operator"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(container)


@pytest.mark.parametrize(("values", "port"), [((), 80), (("--values", str(MAXIMAL)), 8080)], ids=["default", "maximal"])
def test_service_of_invalidations_leads_to_where_the_operator_listens(values, port):
    container = operators_container(*values)
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert environment["INVALIDATION_ADDR"] == f":{ports['invalidation']}"
    (exposed,) = rendered(*values)["Service/varnish-gateway-operator-invalidation"]["spec"]["ports"]
    assert (exposed["port"], exposed["targetPort"]) == (port, "invalidation")


def test_operator_serves_no_invalidations_where_they_are_disabled():
    container = operators_container("--set", "invalidation.enabled=false")
    assert "INVALIDATION_ADDR" not in {variable["name"] for variable in container["env"]}
    assert "invalidation" not in {port["name"] for port in container["ports"]}


def test_service_of_invalidations_has_a_possible_name_in_a_release_with_the_longest_one():
    assert f"Service/{'r' * 50}-invalidation" in rendered(release="r" * 53)


def test_class_refers_to_its_parameters():
    everything = rendered("--values", str(MAXIMAL))
    ref = everything["GatewayClass/maximal.example"]["spec"]["parametersRef"]
    assert f"{ref['kind']}/{ref['name']}" in everything
    assert "parametersRef" not in rendered()["GatewayClass/varnish"]["spec"]


@pytest.mark.parametrize(
    ("value", "absent"),
    [
        ("gatewayClass.create", "GatewayClass/varnish"),
        ("metrics.service.enabled", "Service/varnish-gateway-operator-metrics"),
        ("invalidation.enabled", "Service/varnish-gateway-operator-invalidation"),
        ("podDisruptionBudget.enabled", "PodDisruptionBudget/varnish-gateway-operator"),
    ],
)
def test_disabled_features_are_not_rendered(value, absent):
    assert rendered().keys() - rendered("--set", f"{value}=false").keys() == {absent}


def test_one_operator_without_an_election_needs_no_lease():
    everything = rendered("--set", "leaderElection.enabled=false,replicas=1")
    assert rendered().keys() - everything.keys() == {
        "Role/varnish-gateway-operator",
        "RoleBinding/varnish-gateway-operator",
    }


def test_existing_service_account_is_bound():
    everything = rendered("--set", "serviceAccount.create=false,serviceAccount.name=mine")
    assert "ServiceAccount/varnish-gateway-operator" not in everything
    assert everything["ClusterRoleBinding/varnish-gateway-operator"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "mine", "namespace": SYSTEM}
    ]


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("replica=2", "additional properties 'replica' not allowed"),
        ("replicas=two", "at '/replicas': got string, want integer"),
        ("replicas=-1", "at '/replicas': minimum: got -1, want 0"),
        ("images.gateway.pullPolicy=Always", "at '/images/gateway': additional properties 'pullPolicy' not allowed"),
        ("images.operator.pullPolicy=Sometimes", "at '/images/operator/pullPolicy': value must be one of"),
        ("images.operator.digest=abc", "at '/images/operator/digest': 'abc' does not match pattern"),
        ("images.operator.repository=", "at '/images/operator/repository': minLength"),
        ("leaderElection.leaseSeconds=1", "at '/leaderElection/leaseSeconds': minimum: got 1, want 3"),
        ("gatewayClass.name=My Class", "at '/gatewayClass/name': 'My Class' does not match pattern"),
        ("logLevel=loud", "at '/logLevel': value must be one of 'debug', 'info', 'warning', 'error'"),
        ("podAnnotations.a=1", "at '/podAnnotations/a': got number, want string"),
        (
            "podDisruptionBudget.minAvailable=1,podDisruptionBudget.maxUnavailable=1",
            "at '/podDisruptionBudget': 'not' failed",
        ),
        ("metrics.serviceMonitor.interval=often", "at '/metrics/serviceMonitor/interval': 'often' does not match"),
        ("invalidation.service.port=0", "at '/invalidation/service/port': minimum: got 0, want 1"),
        ("resources.request.cpu=1", "at '/resources': additional properties 'request' not allowed"),
        ("affinity.nodes=x", "at '/affinity': additional properties 'nodes' not allowed"),
        ("leaderElection.enabled=false", "replicas: more than one replica needs leaderElection.enabled"),
        ("gatewayClass.create=false,gatewayClass.parameters.replicas=2", "gatewayClass.parameters: these apply to"),
        ("metrics.service.enabled=false,metrics.serviceMonitor.enabled=true", "needs metrics.service.enabled"),
        ("serviceAccount.create=false", "serviceAccount.name: name the ServiceAccount to use"),
    ],
)
def test_invalid_value_is_rejected_with_its_path(assignment, message):
    done = template("--set", assignment)
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize("values", [(), ("--values", str(MAXIMAL))], ids=["default", "maximal"])
def test_helm_lint_passes(values):
    done = helm("lint", "--strict", str(CHART), "--kube-version", VERSION, *values)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout


# -- for real --------------------------------------------------------------------------------


def test_kubectl_and_helm_install_the_operator(own_cluster, tmp_path):
    """deploy/ twice, then the chart beside it: nothing is refused and nothing is changed a second time."""
    cluster = own_cluster
    cluster.kubectl("apply", "--server-side", "-f", str(DEPLOY))
    generations = ("get", "-f", str(DEPLOY), "-o", "jsonpath={range .items[*]}{.metadata.generation};{end}")
    before = cluster.kubectl(*generations)
    cluster.kubectl("apply", "--server-side", "-f", str(DEPLOY))
    assert before.count(";") == len(shipped())
    assert cluster.kubectl(*generations) == before

    home = {**os.environ, "HOME": str(tmp_path), "KUBECONFIG": str(cluster.kubeconfig())}
    where = ("--namespace", "by-helm")

    def run(*arguments: str) -> str:
        done = subprocess.run([BIN / "helm", *arguments], env=home, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    names = ("--set", "gatewayClass.name=second,chaperone.clusterRole=second-chaperone")
    notes = run("install", "second", str(CHART), *where, "--create-namespace", *names)
    assert "serves the GatewayClass second" in notes
    assert cluster.exists("/apis/gateway.networking.k8s.io/v1/gatewayclasses/second")
    run("upgrade", "second", str(CHART), *where, *names, "--set", "gatewayClass.parameters.replicas=2")
    parameters = cluster.request("GET", "/apis/gateway.varnish-software.com/v1alpha1/gatewayclassparameters/second")
    assert parameters["spec"]["replicas"] == 2
    run("uninstall", "second", *where)
    with pytest.raises(Refused):
        cluster.request("GET", "/apis/gateway.networking.k8s.io/v1/gatewayclasses/second")
    assert cluster.exists("/apis/gateway.networking.k8s.io/v1/gatewayclasses/varnish")
