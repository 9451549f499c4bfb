import msgspec
import pytest

from varnish_gateway import errors
from varnish_gateway.dataplane.ghost.version1 import hand_written, routing_shard
from varnish_gateway.ir import wire

ROUTING = b"""{
  "version": 1,
  "vhosts": {
    "api.example.com": {"service": "api-service", "namespace": "default", "port": 8080, "weight": 100}
  }
}"""

LATIN_1 = '{"version": 2, "é": 1}'.encode("latin-1")


def test_routing_of_version_1():
    content, routing = routing_shard(ROUTING, "routing.json", "x")
    assert msgspec.json.decode(content, type=wire.Routing) == routing
    assert routing.listeners == (wire.Listener(name="http", socket="*"),)
    (route,) = routing.routes
    assert route.attachments[0].hostnames == ("api.example.com",)
    (backend,) = route.rules[0].backends
    assert (backend.service, backend.port, backend.weight) == ("default/api-service", 8080, 100)


def test_default_serves_every_host_and_namespace_is_optional():
    content = b'{"version": 1, "default": {"service": "s", "port": 80}}'
    _, routing = routing_shard(content, "routing.json", "mine")
    assert routing.routes[0].attachments[0].hostnames == ("*",)
    assert routing.routes[0].rules[0].backends[0].service == "mine/s"


def test_version_2_is_passed_through():
    content = b'{"version": 2, "routes": []}'
    assert routing_shard(content, "routing.json", "x")[0] is content


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'{"version": 1, "vhosts": {"a": {"port": 80}}}',
        b'{"version": 2, "rootes": []}',
        b'{"version": 3}',
        LATIN_1,
        b'{"deep": ' + b"[" * 50_000,
    ],
    ids=["half", "list", "field", "unknown", "version", "no UTF-8", "deep"],
)
def test_bad_document_is_reported_with_its_source(content):
    with pytest.raises(errors.BadDocument, match=r"routing\.json: "):
        routing_shard(content, "routing.json", "x")


def test_bad_ghost_json_is_reported_with_its_source():
    with pytest.raises(errors.BadDocument, match=r"ghost\.json: "):
        hand_written(LATIN_1, "ghost.json", lambda _: b"")


def test_version_1_ghost_json_is_used_unchanged():
    content = b'{"version": 1, "vhosts": {}}'
    bundle = hand_written(content, "ghost.json", lambda _: b"")
    assert (bundle.manifest, bundle.files) == (content, {})


def test_files_of_a_hand_written_manifest_are_noticed_when_they_change():
    content = b'{"version": 2, "id": "mine", "routing": ["routing.json"], "endpoints": ["e.json"]}'
    one = hand_written(content, "ghost.json", lambda name: name.encode())
    two = hand_written(content, "ghost.json", lambda name: name.encode() + b"!")
    assert one.id.startswith("mine-")
    assert one.id != two.id
    assert sorted(one.files.values()) == [b"e.json", b"routing.json"]


def test_a_manifest_names_files_beside_it_only():
    content = b'{"version": 2, "id": "mine", "routing": ["../routing.json"]}'
    with pytest.raises(errors.BadDocument, match="beside"):
        hand_written(content, "ghost.json", lambda _: b"")
