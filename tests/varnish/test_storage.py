"""The cache in memory and in a file, when it is full, on a real varnishd."""

import asyncio
import contextlib
import http.client
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from loopback import free_port
from support import manifests
from support.directories import open_directory, replace
from support.http.client import ask
from support.manifests import service
from support.processes import descendants
from support.varnish.caching import policy
from support.varnish.dataplane import endpoints, must_serve, port_of, running
from support.vgw_process import vgw_run
from support.waiting import until_async
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.ghost.metrics import CachedRoutes
from varnish_gateway.dataplane.metrics import EventCounters
from varnish_gateway.dataplane.process import landlock
from varnish_gateway.dataplane.scrape import scrape
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import wire

MEBIBYTE = 2**20
SIZE = 8 * MEBIBYTE
SIZES = {"tiny": 8_000, "medium": 2 * MEBIBYTE, "much": 5 * MEBIBYTE, "large": 3 * SIZE}
USUAL = 200_000

needs_fence = pytest.mark.skipif(landlock.missing() is not None, reason="this kernel has no Landlock")
STORES = [
    pytest.param("malloc,8m", (), id="memory"),
    pytest.param("file,{},8m", (), id="file"),
    # As in a pod, where all processes have one user and only the fence is between them.
    pytest.param("file,{},8m", ("-j", "none"), id="file-same-user", marks=needs_fence),
]


def content(target: str) -> bytes:
    """Return the body of a target: no two have the same."""
    size = next((size for word, size in SIZES.items() if word in target), USUAL)
    line = f"{target}\n".encode()
    return (line * (size // len(line) + 1))[:size]


class Library:
    """An origin with a file for every target; those of /chunked/ come in pieces."""

    def __init__(self) -> None:
        self.fetches: list[str] = []
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                target = head.split(b" ")[1].decode()
                self.fetches.append(target)
                body = content(target)
                if "/chunked/" in target:
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    for start in range(0, len(body), 50_000):
                        piece = body[start : start + 50_000]
                        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                        await writer.drain()
                    writer.write(b"0\r\n\r\n")
                else:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        writer.close()


def download(port: int, target: str) -> tuple[int, bytes | None, str]:
    """Return status, body and Cache-Status; no body if the client can tell that the transfer is incomplete."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", target, headers={"Host": "tea"})
        answer = connection.getresponse()
        try:
            body = answer.read()
        except (http.client.IncompleteRead, ConnectionError):
            body = None
        return answer.status, body, answer.headers.get("Cache-Status", "")
    finally:
        connection.close()


@contextlib.asynccontextmanager
async def cached(library: Library, *arguments: str) -> AsyncIterator[tuple[object, int]]:
    """Give a data plane that caches the library, and its port."""
    rule = wire.Rule(backends=(wire.Backend(service="n/tea", port=80),), cache=policy())
    attachment = wire.Attachment(listener="http", hostnames=("tea",))
    routes = (wire.Route(namespace="n", name="tea", attachments=(attachment,), rules=(rule,)),)
    shard = wire.Routing(version=2, listeners=(wire.Listener(name="http", socket="*"),), routes=routes)
    change = Change(vcl=main_vcl(), routing={0: msgspec.json.encode(shard)}, slices=endpoints("tea", library.port))
    async with running(extra_args=arguments) as plane:
        await must_serve(plane, change)
        yield plane, port_of(plane)


async def metrics(plane: object) -> dict[str, float]:
    lines = await scrape(plane, EventCounters(), CachedRoutes(1), plane.served)
    samples = (line.rpartition(" ") for line in lines if line.startswith("vgw_cache"))
    return {name: float(value) for name, _, value in samples}


@pytest.fixture
async def library() -> AsyncIterator[Library]:
    library = Library()
    server = await library.start()
    yield library
    server.close()


@pytest.mark.parametrize(("store", "more"), STORES)
async def test_full_store_evicts_and_serves_whole_objects(library, store, more):
    targets = [f"/{kind}/{number}" for number in range(40) for kind in ("plain", "chunked")]
    with open_directory() as directory:
        async with cached(library, *more, "-s", store.format(directory)) as (plane, port):
            for target in targets:
                assert (await asyncio.to_thread(download, port, target))[:2] == (200, content(target))
            status, body, outcome = await asyncio.to_thread(download, port, targets[-1])
            assert (status, body) == (200, content(targets[-1]))
            assert "hit" in outcome, "the newest is still there"
            status, body, outcome = await asyncio.to_thread(download, port, targets[0])
            assert (status, body) == (200, content(targets[0]))
            assert "fwd=uri-miss" in outcome, "the oldest is not"
            found = await metrics(plane)
    used, free = (found[f'vgw_cache_{what}_bytes{{store="s0"}}'] for what in ("used", "free"))
    assert used > SIZE / 2
    assert used + free == pytest.approx(SIZE, abs=MEBIBYTE)
    assert found["vgw_cache_evictions_total"] > 20
    assert found["vgw_cache_evicted_unused_seconds_count"] == found["vgw_cache_evictions_total"]
    assert found['vgw_cache_full_total{store="s0"}'] > 0
    assert 0 < found["vgw_cache_objects"] < len(targets)


@pytest.mark.parametrize(("store", "more"), STORES)
async def test_truncated_object_is_never_served_as_complete(library, store, more):
    """An object that is larger than the store, alone and for many clients at once, in a store that is full.

    varnishd may keep one whole in its transient storage for ten seconds.
    """
    target = "/plain/large"
    with open_directory() as directory:
        async with cached(library, *more, "-s", store.format(directory)) as (_, port):
            for number in range(60):
                await asyncio.to_thread(download, port, f"/plain/{number}")
            alone = await asyncio.to_thread(download, port, target)
            together = await asyncio.gather(*(asyncio.to_thread(download, port, target) for _ in range(8)))
            for status, body, outcome in (alone, *together):
                assert body is None or status >= 500 or body == content(target), f"{status}, {outcome}"
            assert library.fetches[-1] == target
            assert (await asyncio.to_thread(download, port, "/plain/1"))[:2] == (200, content("/plain/1"))


@pytest.mark.parametrize(("store", "more"), STORES)
@pytest.mark.parametrize("name", ["", "pages="])
async def test_response_larger_than_half_of_the_store_evicts_nothing(library, store, more, name):
    with open_directory() as directory:
        async with cached(library, *more, "-s", name + store.format(directory)) as (plane, port):
            for target in ("/plain/1", "/plain/medium", "/plain/much", "/chunked/much", "/chunked/much"):
                assert (await asyncio.to_thread(download, port, target))[:2] == (200, content(target))
            assert "too-large" in (await asyncio.to_thread(download, port, "/plain/much"))[2]
            assert "too-large" in (await asyncio.to_thread(download, port, "/chunked/much"))[2]
            for target in ("/plain/1", "/plain/medium"):
                assert "hit" in (await asyncio.to_thread(download, port, target))[2]
            assert (await metrics(plane))["vgw_cache_evictions_total"] == 0


async def test_many_small_objects_make_room_for_a_larger_one(library):
    """By default varnishd evicts 50 objects for a response, and cuts it off if they are too small."""
    async with cached(library, "-s", "malloc,8m") as (plane, port):
        for start in range(0, 1200, 20):
            targets = [f"/tiny/{number}" for number in range(start, start + 20)]
            await asyncio.gather(*(asyncio.to_thread(download, port, target) for target in targets))
        assert (await metrics(plane))["vgw_cache_evictions_total"] > 0, "it is full"
        for target in ("/plain/medium", "/chunked/medium"):
            assert (await asyncio.to_thread(download, port, target))[:2] == (200, content(target))
            assert "hit" in (await asyncio.to_thread(download, port, target))[2]
        assert (await metrics(plane))["vgw_cache_eviction_limits_total"] == 0


async def test_store_in_a_file_leaves_no_file_behind(library):
    with open_directory() as directory:
        async with cached(library, "-s", f"file,{directory},8m") as (_, port):
            await asyncio.to_thread(download, port, "/plain/1")
            assert list(directory.iterdir()) == []


def parameters(storage: str) -> str:
    return manifests.USER_VCL_CLASS.partition("  userVCL")[0] + f"  storage: {storage}\n"


async def test_storage_of_the_class_applies_to_files(workdir, origins):
    """Under ``vgw run`` a file is in the work directory, and a change restarts varnishd with the new store."""
    port, health, conf, work = free_port(), free_port(), workdir / "conf", workdir / "work"
    conf.mkdir()
    (conf / "class.yaml").write_text(parameters("{type: File, size: 32Mi}"))
    (conf / "gateway.yaml").write_text(manifests.gateway("cafe", port))
    (conf / "route.yaml").write_text(manifests.route("cafe", "cafe", "cafe.example.com", tea=1))
    (conf / "tea.yaml").write_text(service("tea", await origins.port("tea")))

    async def size_is(expected: int) -> bool:
        text = (await ask(health, "127.0.0.1", "/metrics")).body.decode()
        found = re.findall(r'vgw_cache_(?:used|free)_bytes\{gateway="default/cafe",store="s0"\} (\d+)', text)
        return sum(map(int, found)) == expected

    options = ("--work-dir", str(work), "--health-addr", f"127.0.0.1:{health}")
    async with vgw_run(conf, options=options) as run:
        await until_async(lambda: size_is(32 * MEBIBYTE), "the file")
        (store,) = work.glob("*/store")
        opened = [found for pid in descendants(run.process.pid) for found in open_files(pid)]
        # Inside the root of an image, what precedes the path is that root.
        assert any(f"{store}/" in path and path.endswith("(deleted)") for path in opened)
        assert (await ask(port, "cafe.example.com")).answered_by == "tea"
        replace(conf / "class.yaml", parameters("{size: 20Mi}"))
        await until_async(lambda: size_is(20 * MEBIBYTE), "the store in memory")
        assert (await ask(port, "cafe.example.com")).answered_by == "tea"
        replace(conf / "class.yaml", parameters("{size: 20Ki}"))
        await run.wait_for_message("storage.size: 20Ki is not between 16Mi and 1Pi; correct it")
        assert (await ask(port, "cafe.example.com")).answered_by == "tea"
        assert await size_is(20 * MEBIBYTE)
    assert list(store.iterdir()) == []


def open_files(pid: int) -> list[str]:
    found = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # it was closed meanwhile
            found.append(os.readlink(descriptor))  # noqa: PTH115 - a deleted file has no path
    return found
