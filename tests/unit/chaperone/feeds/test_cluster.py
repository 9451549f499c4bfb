"""A feed against an API server and a data plane of a few lines each."""

import asyncio
import contextlib
import json

import msgspec
import pytest

from varnish_gateway import errors
from varnish_gateway.chaperone.feeds import cluster, slices
from varnish_gateway.chaperone.feeds.cluster import ClusterFeed
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir import wire
from varnish_gateway.kube.metrics import Metrics


def shard(number, *names, service=None, listeners=()):
    rules = (wire.Rule(backends=(wire.Backend(service=service, port=80),)),) if service else ()
    routes = tuple(wire.Route(namespace="n", name=name, attachments=(), rules=rules) for name in names)
    return msgspec.json.encode(
        wire.Routing(version=2, shard=number, shards=2, listeners=listeners, routes=routes)
    ).decode()


class ApiServer:
    """Has an index that names ``named``, where shard 1 is ``held``."""

    def __init__(self, named, held, first=None):
        self.metrics = Metrics()
        self.first = first or shard(0)
        self.named, self.held = named, held
        self.gets = 0
        self.refusal = None

    async def read(self, path, **_):
        if "endpointslices" in path:
            return self.slices()
        index = {"version": 2, "shards": [content_hash(text.encode()) for text in (self.first, self.named)]}
        metadata = {"name": "gw-vcl", "namespace": "n", "resourceVersion": "5"}
        data = {"main.vcl": "vcl 4.1;", "routing.json": self.first, "shards.json": json.dumps(index)}
        items = [{"metadata": metadata, "data": data}]
        return json.dumps({"kind": "ConfigMapList", "metadata": {"resourceVersion": "10"}, "items": items}).encode()

    def slices(self):
        if self.refusal is not None:
            raise self.refusal
        return json.dumps({"kind": "EndpointSliceList", "metadata": {"resourceVersion": "10"}, "items": []}).encode()

    async def get(self, *_, not_older_than, **__):
        assert not_older_than == "5", "the version of the ConfigMap with the index"
        self.gets += 1
        return json.dumps({"metadata": {}, "data": {"routing.json": self.held}}).encode()

    async def lines(self, *_, **__):
        yield []
        await asyncio.get_running_loop().create_future()


class Plane:
    """Takes every change."""

    def __init__(self, settings):
        self.settings, self.bus = settings, events.Bus()
        self.routing = {}
        self.sockets = []

    def on_in_force(self, save): ...

    async def apply(self, change):
        self.routing |= change.routing
        self.sockets += [] if change.sockets is None else [change.sockets]


@contextlib.asynccontextmanager
async def following(api_server, directory):
    """Give the data plane of a feed that runs."""
    settings = Settings(work_dir=directory, sockets=parse_listen("http-1=:8080,http"), gateway_name="gw", namespace="n")
    plane = Plane(settings)
    running = asyncio.create_task(ClusterFeed(settings, api_server, plane).run())
    try:
        yield plane
    finally:
        running.cancel()
        await asyncio.wait({running})


async def until_served(plane, text):
    async with asyncio.timeout(5):
        while plane.routing.get(1) != text.encode():
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def _looks_again_soon(monkeypatch):
    monkeypatch.setattr(cluster, "AHEAD_SECONDS", 0.02)


async def test_reverted_shard_that_was_ahead_of_its_index_is_read_again(tmp_path):
    api_server = ApiServer(named=shard(1, "b"), held=shard(1, "c"))
    async with following(api_server, tmp_path) as plane:
        await until_served(plane, shard(1, "c"))
        api_server.held = shard(1, "b")
        await until_served(plane, shard(1, "b"))


async def test_shard_that_the_index_names_is_read_once(tmp_path):
    api_server = ApiServer(named=shard(1, "b"), held=shard(1, "b"))
    async with following(api_server, tmp_path) as plane:
        await until_served(plane, shard(1, "b"))
        await asyncio.sleep(0.1)
    assert api_server.gets == 1


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_fresh_pod_serves_nothing_before_its_endpoints_are_listed(tmp_path, monkeypatch, status):
    """It isn't ready as long as nothing is applied."""
    monkeypatch.setattr(slices, "FIRST_LIST_SECONDS", 0.05)
    text = shard(1, "a", service="tea/tea")
    api_server = ApiServer(named=text, held=text)
    api_server.refusal = errors.ApiError("in trouble", status=status)
    async with following(api_server, tmp_path) as plane:
        async with asyncio.timeout(5):
            while api_server.metrics.watch_restarts["EndpointSlice"] < 5:
                await asyncio.sleep(0.01)
        assert plane.routing == {}
        api_server.refusal = None
        await until_served(plane, text)


async def test_listeners_that_the_pod_did_not_start_with_open_their_ports(tmp_path):
    listeners = tuple(wire.Listener(name=f"http-{port}", socket=f"http-{port}", port=port) for port in (8080, 8081))
    text = shard(1, "a")
    async with following(ApiServer(text, text, shard(0, listeners=listeners)), tmp_path) as plane:
        await until_served(plane, text)
        async with asyncio.timeout(5):
            while not plane.sockets:
                await asyncio.sleep(0.005)
    (sockets,) = plane.sockets
    assert [socket.name for socket in sockets.plain] == ["ghost-reload", "http-1", "http-8080", "http-8081"]


async def test_listeners_of_the_start_change_no_sockets(tmp_path):
    text = shard(1, "a")
    listeners = (wire.Listener(name="one", socket="http-1", port=8080),)
    async with following(ApiServer(text, text, shard(0, listeners=listeners)), tmp_path) as plane:
        await until_served(plane, text)
    assert plane.sockets == []
