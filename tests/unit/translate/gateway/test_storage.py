import pytest

from support.builders.objects import VARNISH_API, obj, view_of
from varnish_gateway.api.varnish import StorageParameters
from varnish_gateway.translate.gateway.parameters import validate_parameters

VOLUME = {"name": "disk", "emptyDir": {}}


def ask(**spec):
    return validate_parameters(obj("GatewayClassParameters", "p", group=VARNISH_API, spec=spec), view_of())


@pytest.mark.parametrize(
    "spec",
    [
        {"storage": {}},
        {"storage": {"size": "1%"}},
        {"storage": {"size": "90%"}},
        {"storage": {"size": "1Gi"}, "resources": {"limits": {"memory": "2Gi"}}},
        {"storage": {"type": "File", "size": "20Gi"}, "resources": {"limits": {"memory": "2Gi"}}},
        {"storage": {"type": "File", "size": "20Gi", "volume": "disk"}, "extraVolumes": [VOLUME]},
        {"storage": {"size": "1Gi"}, "varnishdExtraArgs": ["-s", "Transient=malloc,1g"]},
        {"storage": {"size": "1Gi"}, "extraVolumes": [{"name": "store", "emptyDir": {}}]},
        {
            "storage": {"type": "File", "size": "1Gi", "volume": "store"},
            "extraVolumes": [{"name": "store", "emptyDir": {}}],
        },
    ],
)
def test_valid_storage_is_handed_on(spec):
    got = ask(**spec)
    assert got.problem is None
    assert got.parameters.storage == StorageParameters(**spec["storage"])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"storage": {"type": "Tape"}}, "storage.type: Tape is not one of Memory, File"),
        ({"storage": {"size": "91%"}}, "storage.size: 91% is no size; write a share of 1% to 90%"),
        ({"storage": {"size": "0%"}}, "storage.size: 0% is no size"),
        ({"storage": {"size": "much"}}, "storage.size: much is no size"),
        ({"storage": {"size": "4"}}, "storage.size: 4 is not between 16Mi and 1Pi"),
        ({"storage": {"size": "-4Gi"}}, "storage.size: -4Gi is not between 16Mi and 1Pi"),
        ({"storage": {"type": "File", "size": "2Ei"}}, "storage.size: 2Ei is not between 16Mi and 1Pi"),
        ({"storage": {"volume": "disk"}}, "storage.volume: only a file has a volume"),
        ({"storage": {"type": "File"}}, "storage.size: a file needs an amount; write for example 20Gi"),
        ({"storage": {"type": "File", "size": "50%"}}, "storage.size: a file needs an amount"),
        (
            {"storage": {"type": "File", "size": "1Gi", "volume": "disk"}},
            "storage.volume: there is no volume disk in extraVolumes; add it there",
        ),
        (
            {"storage": {"size": "2Gi"}, "resources": {"limits": {"memory": "2Gi"}}},
            "storage.size: 2Gi leaves nothing of resources.limits.memory",
        ),
        (
            {"storage": {"size": "2Gi"}, "varnishdExtraArgs": ["-s", "malloc,1g"]},
            "storage: a -s in varnishdExtraArgs decides where the cache is; remove one of the two",
        ),
        (
            {"storage": {"type": "File", "size": "1Gi"}, "extraVolumes": [{"name": "store", "emptyDir": {}}]},
            "extraVolumes: the name store is used by the gateway itself",
        ),
        (
            {
                "storage": {"type": "File", "size": "1Gi"},
                "extraVolumes": [VOLUME],
                "extraVolumeMounts": [{"name": "disk", "mountPath": "/var/cache"}],
            },
            "extraVolumeMounts: /var/cache would cover /var/cache/varnish",
        ),
    ],
)
def test_contradiction_is_a_problem_with_a_remedy(spec, message):
    got = ask(**spec)
    assert got.problem.reason == "InvalidParameters"
    assert got.problem.message.startswith(message)
    assert got.parameters is None
