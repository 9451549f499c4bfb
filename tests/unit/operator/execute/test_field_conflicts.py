"""Fields in conflict are left out of the manifest, and nothing else."""

import pytest

from varnish_gateway.operator.execute.field_conflicts import without

MANIFEST = {
    "spec": {
        "replicas": 2,
        "ports": [{"port": 80, "protocol": "TCP", "nodePort": 1}, {"port": 80, "protocol": "UDP"}],
        "containers": [{"name": "gateway", "image": "a", "env": [{"name": "A", "value": "1"}]}, {"name": "log"}],
    },
    "data": {"main": "m", "main.vcl": "v"},
    "metadata": {"annotations": {"varnish.io/applied-hash": "x", "a.b/c": "y"}},
}


@pytest.mark.parametrize(
    ("field", "look"),
    [
        (".spec.replicas", lambda left: "replicas" not in left["spec"]),
        (
            '.spec.ports[port=80,protocol="TCP"].nodePort',
            lambda left: left["spec"]["ports"] == [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}],
        ),
        (
            '.spec.containers[name="gateway"].image',
            lambda left: "image" not in left["spec"]["containers"][0] and left["spec"]["containers"][0]["env"],
        ),
        (
            '.spec.containers[name="gateway"].env[name="A"].value',
            lambda left: left["spec"]["containers"][0]["env"] == [{"name": "A"}],
        ),
        ('.spec.containers[name="log"]', lambda left: len(left["spec"]["containers"]) == 1),
        (".data.main.vcl", lambda left: left["data"] == {"main": "m"}),
        (".data.main", lambda left: left["data"] == {"main.vcl": "v"}),
        (".metadata.annotations.a.b/c", lambda left: len(left["metadata"]["annotations"]) == 1),
    ],
)
def test_field_in_conflict_is_left_out(field, look):
    left = without(MANIFEST, [field])
    assert look(left)
    assert left != MANIFEST


def test_field_that_the_manifest_does_not_have_is_ignored():
    assert without(MANIFEST, [".spec.paused", '.spec.ports[port=81,protocol="TCP"]', ".status", ""]) == MANIFEST


def test_given_manifest_is_not_modified():
    before = repr(MANIFEST)
    without(MANIFEST, [".spec"])
    assert repr(MANIFEST) == before
