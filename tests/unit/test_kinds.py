"""Adding a watched kind is one row: everything that differs by kind follows from it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from support.permissions import VERBS, operator_permissions
from varnish_gateway import decoding
from varnish_gateway.api.gateway_networking import GROUP
from varnish_gateway.kinds import KINDS, Kind, SchemaSource, Use, used_for
from varnish_gateway.kube.metrics import Metrics
from varnish_gateway.kube.resources import RESOURCES
from varnish_gateway.operator.observe.state import ObservedState
from varnish_gateway.operator.observe.watches import Watches
from varnish_gateway.operator.status.documents import SHARED
from varnish_gateway.standalone.schema import Catalogue
from varnish_gateway.standalone.schema.core import BUILT_IN

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue()


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


def test_row_yields_its_resource(kind):
    resource = RESOURCES[kind.name]
    assert (resource.kind, resource.api_version, resource.plural) == (kind.name, kind.api_version, kind.plural)
    assert resource.namespaced == kind.namespaced


def test_row_yields_a_decoder_in_every_version_or_has_no_type(kind):
    decoded = {decoding.TYPES.get((version, kind.name)) for version in kind.api_versions}
    assert decoded == {kind.object_type}
    assert (kind.object_type is None) == (kind.schema is None), (
        "what files may hold can be decoded, and the other way round"
    )


def test_row_yields_a_schema_in_every_version_or_has_no_type(kind, catalogue):
    found = [catalogue.kinds.get((version, kind.name)) for version in kind.api_versions]
    assert [schema is not None for schema in found] == [kind.object_type is not None] * len(found)
    assert all(schema is None or schema.namespaced == kind.namespaced for schema in found)


def test_row_yields_a_watch_for_each_use_that_needs_one(kind):
    watches = Watches(SimpleNamespace(metrics=Metrics()), ObservedState("varnish"))
    expected = sum(use in kind.uses for use in (Use.INPUT, Use.OWNED, Use.POD))
    assert watches.watched.count(kind.name) == expected


def test_inputs_and_status_need_a_type(kind):
    needs_type = bool(kind.uses & (Use.INPUT | Use.REFERENCED | Use.STATUS))
    assert not needs_type or kind.object_type is not None


def test_built_in_schemas_are_exactly_those_of_the_table():
    assert BUILT_IN.keys() == {kind.name for kind in KINDS.values() if kind.schema is SchemaSource.BUILT_IN}


def test_status_is_written_for_inputs_alone():
    assert all(Use.INPUT in kind.uses for kind in used_for(Use.STATUS))
    assert all(Use.STATUS in kind.uses for kind in used_for(Use.STATUS_MANAGER))


def test_older_version_is_read_only_where_the_status_is_written_in_it_too():
    """Statuses that are applied name the current version; the shared ones are patched in the served version."""
    older = {kind.name for kind in used_for(Use.STATUS) if kind.reads_older_versions}
    assert older
    assert older <= SHARED.keys()


def test_gateway_api_kinds_have_a_crd():
    assert all(kind.schema is SchemaSource.CRD for kind in KINDS.values() if kind.group == GROUP)


def test_every_use_has_its_permissions_or_none_in_the_cluster_role():
    elsewhere = {Use.STATUS_MANAGER, Use.LEASE, Use.ENDPOINTS}  # none needed; a Role; the chaperone's role
    assert set(Use) == VERBS.keys() | elsewhere


def rules_of(role: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    granted: dict[tuple[str, str], set[str]] = {}
    for rule in role["rules"]:
        if "resourceNames" not in rule:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    granted.setdefault((resource, group), set()).update(rule["verbs"])
    return granted


def cluster_role(name: str) -> dict[str, Any]:
    documents = [document for path in DEPLOY.glob("*.yaml") for document in yaml.safe_load_all(path.read_text())]
    (role,) = [one for one in documents if one["kind"] == "ClusterRole" and one["metadata"]["name"] == name]
    return role


def test_cluster_role_of_the_operator_grants_exactly_what_the_table_asks_for():
    assert rules_of(cluster_role("varnish-gateway-operator")) == operator_permissions()


def test_cluster_role_of_the_chaperone_grants_exactly_its_endpoints():
    expected = {(kind.plural, kind.group): {"get", "list", "watch"} for kind in used_for(Use.ENDPOINTS)}
    assert rules_of(cluster_role("varnish-gateway-chaperone")) == expected
