"""What the operator and a chaperone may do, in full: everything else is refused.

Every verb on every resource that the API server knows is asked for. The rules come from deploy/
and, for a chaperone, from what the operator makes for a Gateway, applied under its own account.
"""

import contextlib
import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from cluster.apiserver.server import ADMIN, Cluster, Document
from cluster.errors import Refused
from support.permissions import operator_permissions
from varnish_gateway.api import Key
from varnish_gateway.emit.manifests.objects import bindings, objects
from varnish_gateway.emit.manifests.secret import secret
from varnish_gateway.emit.manifests.shape import GatewayShape, Installation
from varnish_gateway.ir import Tls
from varnish_gateway.kube.resources import RESOURCES

ROOT = Path(__file__).parents[2]
SYSTEM, OPERATOR = "varnish-gateway-system", "varnish-gateway-operator"
CHAPERONE_ROLE = "varnish-gateway-chaperone"
SETTLE_SECONDS = 30.0
LEASE = "varnish-gateway-operator-varnish"

GATEWAY_API, RBAC = "gateway.networking.k8s.io", "rbac.authorization.k8s.io"
VERBS = (
    *("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
    *("bind", "escalate", "impersonate", "approve", "sign", "use"),
)


class Kind(NamedTuple):
    """A resource or subresource, and its API group; a plain tuple equals it."""

    resource: str
    group: str


LEASES = Kind("leases", "coordination.k8s.io")
CLUSTER_ROLES = Kind("clusterroles", RBAC)
ENDPOINT_SLICES = Kind("endpointslices", "discovery.k8s.io")
FINALIZERS = Kind("gateways/finalizers", GATEWAY_API)
UNLISTED = {
    FINALIZERS,
    *(Kind(plural, "") for plural in ("users", "groups", "uids")),
    Kind("signers", "certificates.k8s.io"),
}
"""Resources that exist for permissions alone."""

EVERYBODY = {
    ("selfsubjectaccessreviews", "authorization.k8s.io"): {"create"},
    ("selfsubjectrulesreviews", "authorization.k8s.io"): {"create"},
    ("selfsubjectreviews", "authentication.k8s.io"): {"create"},
}
"""What Kubernetes lets every account do: ask about itself."""

OPERATOR_MAY = EVERYBODY | operator_permissions()
OPERATOR_MAY_AT_HOME = OPERATOR_MAY | {LEASES: {"create"}}


class Account(NamedTuple):
    namespace: str
    name: str

    @property
    def spec(self) -> Document:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{self.namespace}", "system:authenticated"]
        return {"user": f"system:serviceaccount:{self.namespace}:{self.name}", "groups": groups}


class Reviews:
    """Asks the API server what an account may do, over one connection."""

    def __init__(self, cluster: Cluster) -> None:
        self._link = http.client.HTTPSConnection("127.0.0.1", cluster.port, context=cluster.trust(), timeout=30)
        self.resources = UNLISTED | set(discovered(cluster))

    def close(self) -> None:
        self._link.close()

    def allows(self, account: Account, verb: str, kind: Kind, namespace: str = "", name: str = "") -> bool:
        plural, _, subresource = kind.resource.partition("/")
        attributes = {
            "verb": verb,
            "group": kind.group,
            "resource": plural,
            "subresource": subresource,
            "namespace": namespace,
            "name": name,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {**account.spec, "resourceAttributes": attributes},
        }
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"}
        self._link.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", json.dumps(review), headers)
        answer = json.loads(self._link.getresponse().read())
        return bool(answer["status"]["allowed"])

    def settle(
        self, account: Account, verb: str, kind: Kind, namespace: str = "", name: str = "", *, to: bool = True
    ) -> None:
        """Wait until a change of rules has reached the authorizer, which follows them with a watch of its own."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while self.allows(account, verb, kind, namespace, name) != to:
            assert time.monotonic() < deadline, f"{account.name}: {verb} {kind.resource} is still {not to}"

    def everything(self, account: Account, namespace: str, name: str = "") -> dict[Kind, set[str]]:
        """Return the verbs that the account has, by resource and group."""
        found: dict[Kind, set[str]] = {}
        for kind in sorted(self.resources):
            if verbs := {verb for verb in VERBS if self.allows(account, verb, kind, namespace, name)}:
                found[kind] = verbs
        return found


def discovered(cluster: Cluster) -> Iterator[Kind]:
    """Every resource and subresource that the API server serves."""
    groups = cluster.request("GET", "/apis")["groups"]
    served = [version["groupVersion"] for group in groups for version in group["versions"]]
    for path, group in [("/api/v1", ""), *((f"/apis/{name}", name.partition("/")[0]) for name in served)]:
        for resource in cluster.request("GET", path)["resources"]:
            yield Kind(resource["name"], group)


@pytest.fixture(scope="module")
def reviews(cluster: Cluster) -> Iterator[Reviews]:
    with contextlib.closing(Reviews(cluster)) as reviews:
        yield reviews


def shipped() -> list[Document]:
    names = ("00-prereqs.yaml", "01-operator.yaml", "02-chaperone-rbac.yaml")
    return [document for name in names for document in yaml.safe_load_all((ROOT / "deploy" / name).read_text())]


@pytest.fixture(scope="module")
def operator(cluster: Cluster, reviews: Reviews) -> Account:
    """Have the operator's account, with the rules of deploy/."""
    return install(cluster, reviews)


def install(cluster: Cluster, reviews: Reviews) -> Account:
    """Have everything of deploy/ that is about access."""
    included = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    chosen = [document for document in shipped() if document["kind"] in included]
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump_all(chosen))
    account = Account(SYSTEM, OPERATOR)
    reviews.settle(account, "bind", CLUSTER_ROLES, "", CHAPERONE_ROLE)
    reviews.settle(account, "get", LEASES, SYSTEM, LEASE)
    return account


@pytest.fixture
def backends(cluster: Cluster, namespace: str) -> Iterator[str]:
    """Have a second namespace, where a Gateway's backends are."""
    name = f"{namespace}-backends"
    cluster.create_namespace(name)
    yield name
    cluster.clear_namespace(name)


@pytest.fixture
def chaperone(cluster: Cluster, reviews: Reviews, operator: Account, namespace: str, backends: str) -> Account:
    """Have the account of a Gateway's pods, made under the operator's own."""
    apply_gateway(cluster, operator, namespace, backends)
    account = Account(namespace, "cafe-vgw")
    reviews.settle(account, "get", Kind("configmaps", ""), namespace, "cafe-vcl")
    reviews.settle(account, "get", ENDPOINT_SLICES, backends)
    return account


def apply_gateway(cluster: Cluster, operator: Account, namespace: str, backends: str) -> None:
    """Make a Gateway, and all that the operator makes for one, under the operator's account."""
    token = cluster.service_account_token(*operator)
    gateway = {
        "apiVersion": f"{GATEWAY_API}/v1",
        "kind": "Gateway",
        "metadata": {"name": "cafe"},
        "spec": {"gatewayClassName": "varnish", "listeners": [{"name": "http", "protocol": "HTTP", "port": 80}]},
    }
    made = cluster.request("POST", f"/apis/{GATEWAY_API}/v1/namespaces/{namespace}/gateways", gateway)
    shape = GatewayShape(namespace=namespace, name="cafe", uid=made["metadata"]["uid"], class_name="varnish")
    installation = Installation(image="gateway")
    tls_secret = {Key("Secret", namespace, "cafe-vgw-tls"): secret(shape, Tls())}
    made_of = {**objects(shape, installation), **tls_secret, **bindings(shape, (backends,), installation)}
    for key, manifest in made_of.items():
        path = RESOURCES[key.kind].path(key.namespace, key.name) + "?fieldManager=varnish-gateway"
        cluster.request("PATCH", path, manifest, content_type="application/apply-patch+yaml", token=token)


# -- rules -----------------------------------------------------------------------------------


def test_no_rule_has_a_wildcard():
    rules = [rule for document in shipped() for rule in document.get("rules", ())]
    assert len(rules) > 10
    for rule in rules:
        for part in rule.values():
            assert not any("*" in word for word in part), rule


# -- the operator ----------------------------------------------------------------------------


def test_the_operator_may_do_this_in_any_namespace_and_nothing_else(reviews, operator, namespace):
    assert reviews.everything(operator, namespace) == OPERATOR_MAY


def test_the_operator_may_do_the_same_cluster_wide(reviews, operator):
    assert reviews.everything(operator, "") == OPERATOR_MAY


def test_operator_may_create_a_lease_in_its_own_namespace(reviews, operator):
    assert reviews.everything(operator, SYSTEM) == OPERATOR_MAY_AT_HOME


@pytest.mark.parametrize("verb", VERBS)
def test_operator_may_update_only_its_own_lease(reviews, operator, verb, namespace):
    assert reviews.allows(operator, verb, LEASES, SYSTEM, LEASE) == (verb in {"create", "get", "patch"})
    assert reviews.allows(operator, verb, LEASES, SYSTEM, "another") == (verb == "create")
    assert not reviews.allows(operator, verb, LEASES, namespace, LEASE)


@pytest.mark.parametrize("verb", VERBS)
def test_operator_may_bind_only_the_chaperone_role(reviews, operator, verb):
    assert reviews.allows(operator, verb, CLUSTER_ROLES, "", CHAPERONE_ROLE) == (verb == "bind")
    assert not reviews.allows(operator, verb, CLUSTER_ROLES, "", "cluster-admin")


def binding(role: str) -> Document:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "more"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "cafe", "namespace": "default"}],
    }


def test_operator_cannot_grant_permissions_it_lacks(cluster, operator, namespace):
    token = cluster.service_account_token(*operator)
    path = f"/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings"
    with pytest.raises(Refused, match="attempting to grant RBAC permissions not currently held"):
        cluster.request("POST", path, binding("cluster-admin"), token=token)
    cluster.request("POST", path, binding(CHAPERONE_ROLE), token=token)


@pytest.fixture
def strict_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Have an API server that checks who may block the deletion of an owner."""
    cluster = Cluster(tmp_path, api_flags=["--enable-admission-plugins=OwnerReferencesPermissionEnforcement"]).start()
    yield cluster
    cluster.stop()


def test_owner_references_are_accepted_where_they_are_checked(strict_cluster):
    cluster = strict_cluster
    for name in ("one", "two", "backends"):
        cluster.create_namespace(name)
    with contextlib.closing(Reviews(cluster)) as reviews:
        operator = install(cluster, reviews)
        apply_gateway(cluster, operator, "one", "backends")
        role = f"/apis/{RBAC}/v1/clusterroles/{OPERATOR}"
        rules = cluster.request("GET", role)["rules"]
        cluster.merge(role, {"rules": [rule for rule in rules if rule["resources"] != [FINALIZERS.resource]]})
        reviews.settle(operator, "update", FINALIZERS, to=False)
        with pytest.raises(Refused, match="cannot set blockOwnerDeletion"):
            apply_gateway(cluster, operator, "two", "backends")


# -- a chaperone -----------------------------------------------------------------------------


def test_a_chaperone_may_ask_for_nothing_as_a_whole_in_its_own_namespace(reviews, chaperone):
    assert reviews.everything(chaperone, chaperone.namespace) == EVERYBODY


def test_a_chaperone_may_do_nothing_cluster_wide(reviews, chaperone):
    assert reviews.everything(chaperone, "") == EVERYBODY


def test_chaperone_may_watch_endpoints_in_backend_namespaces(reviews, chaperone, backends):
    assert reviews.everything(chaperone, backends) == EVERYBODY | {ENDPOINT_SLICES: {"get", "list", "watch"}}


@pytest.mark.parametrize(
    ("resource", "name", "verbs"),
    [
        ("configmaps", "cafe-vcl", {"get", "list", "watch"}),
        ("configmaps", "cafe-vcl-1", {"get"}),
        ("configmaps", "cafe-vcl-15", {"get"}),
        ("configmaps", "another", set()),
        ("secrets", "cafe-vgw-tls", {"get", "list", "watch"}),
        ("secrets", "another", set()),
    ],
)
def test_chaperone_may_read_only_named_objects(reviews, chaperone, resource, name, verbs):
    named = {(resource, ""): verbs} if verbs else {}
    assert reviews.everything(chaperone, chaperone.namespace, name) == EVERYBODY | named
