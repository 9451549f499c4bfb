import pytest

from support.builders.objects import VARNISH_API, obj
from varnish_gateway.translate.gateway.pod_extras import clash

VOLUME = {"name": "data", "emptyDir": {}}
INIT = {"name": "first", "image": "example.com/first:1"}


def ask(**spec) -> str | None:
    return clash(obj("GatewayClassParameters", "p", group=VARNISH_API, spec=spec).spec)


def mounted(*paths: str) -> str | None:
    return ask(extraVolumes=[VOLUME], extraVolumeMounts=[{"name": "data", "mountPath": path} for path in paths])


def test_class_without_additions_has_no_problem():
    assert ask() is None


@pytest.mark.parametrize("path", ["/data", "/var/lib/varnish-data", "/tmp/data", "/var/run/varnishd", "/etc/varnish"])
def test_harmless_additions_are_accepted(path: str):
    assert mounted(path) is None


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/tmp",
        "/tmp/",
        "/var",
        "/var/lib/varnish",
        "//var/lib//varnish/",
        "/var/lib/varnish/varnishd/x",
        "/run/varnish",
        "/run",
        "/var/run/secrets/kubernetes.io",
    ],
)
def test_a_path_of_our_own(path: str):
    assert "choose another path" in mounted(path)


@pytest.mark.parametrize("path", ["data", "/data/../var/lib/varnish"])
def test_a_path_that_does_not_begin_at_the_root(path: str):
    assert "is not a path from the root" in mounted(path)


def test_a_path_twice():
    assert mounted("/data", "/data/") == "extraVolumeMounts: /data occurs more than once; remove one of them"


@pytest.mark.parametrize("volume", ["other", "work"])
def test_a_mount_without_its_volume(volume: str):
    got = ask(extraVolumes=[VOLUME], extraVolumeMounts=[{"name": volume, "mountPath": "/x"}])
    assert got == f"extraVolumeMounts: /x: there is no volume {volume} in extraVolumes; add it there"


@pytest.mark.parametrize("name", ["work", "varnish", "tmp", "api-access"])
def test_a_volume_of_our_own(name: str):
    got = ask(extraVolumes=[{"name": name}])
    assert got == f"extraVolumes: the name {name} is used by the gateway itself; choose another one"


@pytest.mark.parametrize("name", ["gateway", "access-log"])
def test_an_init_container_called_like_ours(name: str):
    assert f"extraInitContainers: the name {name} is used" in ask(extraInitContainers=[{**INIT, "name": name}])


def test_names_twice():
    assert "extraVolumes: data occurs more than once" in ask(extraVolumes=[VOLUME, VOLUME])
    assert "extraInitContainers: first occurs more than once" in ask(extraInitContainers=[INIT, INIT])
