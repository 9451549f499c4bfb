import pytest

from support.builders.shapes import INSTALLATION, parameters, shape
from varnish_gateway.api import Key
from varnish_gateway.emit.manifests import objects

REQUEST = {"containerName": "gateway", "resource": "requests.memory", "divisor": "1"}
REQUESTS = {"requests": {"memory": "2Gi"}}


def pod(**spec) -> dict:
    made = objects(shape(parameters=parameters(**spec)), INSTALLATION)
    return made[Key("Deployment", "shop", "web-vgw")]["spec"]["template"]["spec"]


def variables(spec: dict) -> dict:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in spec["containers"][0]["env"]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"resources": REQUESTS}, True),
        ({"resources": REQUESTS, "storage": {"size": "60%"}}, True),
        ({"resources": REQUESTS, "varnishdExtraArgs": ["-s", "Transient=malloc,1g"]}, True),
        ({}, False),
        ({"storage": {"size": "60%"}}, False),
        ({"resources": {"requests": {"cpu": "1"}}}, False),
        ({"resources": {**REQUESTS, "limits": {"memory": "2Gi"}}}, False),
        ({"resources": REQUESTS, "varnishdExtraArgs": ["-s", "malloc,1g"]}, False),
        ({"resources": REQUESTS, "storage": {"size": "1Gi"}}, False),
        ({"resources": REQUESTS, "storage": {"type": "File", "size": "1Gi"}}, False),
    ],
)
def test_pod_is_told_its_request_only_where_that_decides_the_size(spec, expected):
    found = variables(pod(**spec)).get("MEMORY_REQUEST")
    assert found == ({"resourceFieldRef": REQUEST} if expected else None)


@pytest.mark.parametrize(
    ("storage", "store"),
    [
        (None, None),
        ({}, None),
        ({"type": "Memory"}, None),
        ({"size": "60%"}, "malloc,60%"),
        ({"size": "1Gi"}, "malloc,1073741824"),
        ({"type": "File", "size": "1Gi"}, "file,/var/cache/varnish,1073741824"),
    ],
)
def test_storage_reaches_the_chaperone(storage, store):
    spec = {} if storage is None else {"storage": storage}
    assert variables(pod(**spec)).get("VARNISH_STORAGE") == store


def test_file_gets_a_volume_with_room_for_it():
    made = pod(storage={"type": "File", "size": "10Gi"})
    assert {"name": "store", "emptyDir": {"sizeLimit": "10752Mi"}} in made["volumes"]
    assert {"name": "store", "mountPath": "/var/cache/varnish"} in made["containers"][0]["volumeMounts"]


def test_file_is_on_the_volume_of_the_user():
    volume = {"name": "disk", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}}
    made = pod(storage={"type": "File", "size": "10Gi", "volume": "disk"}, extraVolumes=[volume])
    assert [one for one in made["volumes"] if one["name"] in ("store", "disk")] == [volume]
    assert {"name": "disk", "mountPath": "/var/cache/varnish"} in made["containers"][0]["volumeMounts"]


def test_cache_in_memory_has_no_volume():
    names = [volume["name"] for volume in pod(storage={"size": "60%"})["volumes"]]
    assert names == [volume["name"] for volume in pod()["volumes"]]
