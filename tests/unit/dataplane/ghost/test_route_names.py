"""The names of the routes that serve."""

import msgspec

from varnish_gateway.dataplane.ghost import route_names
from varnish_gateway.dataplane.ghost.files import GhostFiles
from varnish_gateway.dataplane.ghost.route_names import RouteNames
from varnish_gateway.ir import wire


def shard(number: int, *names: str) -> bytes:
    routes = tuple(wire.Route(namespace="shop", name=name, attachments=(), rules=()) for name in names)
    return msgspec.json.encode(wire.Routing(version=2, shard=number, shards=3, routes=routes))


def test_routes_of_all_shards_are_named_and_only_changed_shards_read(monkeypatch):
    read, decode = [], route_names.decode_names
    monkeypatch.setattr(route_names, "decode_names", lambda content: read.append(content) or decode(content))
    files, names = GhostFiles(), RouteNames()
    files.update({1: shard(1, "tea"), 2: shard(2, "coffee")}, {"shop/tea:80": (wire.Endpoint("127.0.0.1", 1),)})
    assert names.of(files.bundle()) == {"shop/tea", "shop/coffee"}
    read.clear()
    files.update({2: shard(2, "cocoa")}, {})
    assert names.of(files.bundle()) == {"shop/tea", "shop/cocoa"}
    assert read == [shard(2, "cocoa")]
