"""deploy/ and the chart agree, as far as no helm is needed to see it."""

from pathlib import Path

import yaml

from varnish_gateway.operator.run import LEASE
from varnish_gateway.operator.settings import OperatorSettings

ROOT = Path(__file__).parents[3]
DEPLOY, CHART = ROOT / "deploy", ROOT / "charts" / "varnish-gateway"


def documents(path: Path) -> list[dict]:
    return list(yaml.safe_load_all(path.read_text()))


def test_the_files_of_the_seed_are_here():
    assert [path.name for path in sorted(DEPLOY.glob("*.yaml"))] == [
        "00-prereqs.yaml",
        "01-operator.yaml",
        "02-chaperone-rbac.yaml",
        "03-gatewayclass.yaml",
        "04-sample-gateway.yaml",
    ]


def test_every_crd_is_in_the_chart_and_in_the_prerequisites():
    crds = {path.name: path.read_text() for path in (DEPLOY / "crds").glob("*.yaml")}
    assert crds == {path.name: path.read_text() for path in (CHART / "crds").glob("*.yaml")}, "run `make manifests`"
    for text in crds.values():
        assert yaml.safe_load(text) in documents(DEPLOY / "00-prereqs.yaml"), "run `make manifests`"


def test_images_have_the_version_of_the_tree():
    version = (ROOT / ".version").read_text().strip()
    everything = "".join(path.read_text() for path in DEPLOY.glob("*.yaml"))
    for image in ("gateway-operator", "varnish-gateway"):
        assert f"ghcr.io/varnish/{image}:{version}" in everything, "run `make manifests`"
    assert everything.count("ghcr.io/varnish/") == everything.count(f":{version}"), "run `make manifests`"


def test_the_chart_names_things_as_the_operator_does():
    default, values = OperatorSettings(), yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["gatewayClass"]["name"] == default.class_name
    assert values["chaperone"]["clusterRole"] == default.chaperone_role
    assert values["leaderElection"] == {"enabled": default.leader_election, "leaseSeconds": default.lease_seconds}
    assert values["rolloutsAtOnce"] == default.rollouts_at_once
    assert values["images"]["gateway"]["repository"] == default.image.rpartition(":")[0]
    (namespace,) = [document for document in documents(DEPLOY / "00-prereqs.yaml") if document["kind"] == "Namespace"]
    assert namespace["metadata"]["name"] == default.namespace


def test_the_operator_may_hold_the_lease_of_its_class():
    (role,) = [document for document in documents(DEPLOY / "01-operator.yaml") if document["kind"] == "Role"]
    named = [name for rule in role["rules"] for name in rule.get("resourceNames", ())]
    assert named == [f"{LEASE}-{OperatorSettings().class_name}"]


def test_operator_that_starts_has_minutes_before_kubelet_restarts_it():
    """A large cluster has a lot to read and to compile."""
    (deployment,) = [
        document for document in documents(DEPLOY / "01-operator.yaml") if document["kind"] == "Deployment"
    ]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    probe = container["startupProbe"]
    assert probe["httpGet"] == container["livenessProbe"]["httpGet"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 300
