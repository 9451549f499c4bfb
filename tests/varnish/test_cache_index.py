"""Which objects are in the index, and that it is exact."""

import itertools
import random
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.directories import open_directory
from support.http.scripted_origin import ScriptedOrigin, answer, trickle
from support.varnish.caching import outcome, policy, reason
from support.varnish.ghost import PANICKING, Config, GhostHarness, backend, route, to
from support.varnish.invalidation import HOST, index, invalidate, prefix, uri
from support.waiting import until
from varnish_gateway.ir import wire

EVERYTHING = {"everything": True}

pytestmark = pytest.mark.usefixtures("empty_cache", "empty_index")


def get(ghost, path: str, *, host: str = HOST, **request):
    return outcome(ghost.get(path, host=host, **request))


def test_reloads_keep_the_index(ghost, serve):
    with ScriptedOrigin(answer()) as origin:
        serve(origin, cache=policy())
        get(ghost, "/page")
        name = ghost.load_vcl("# another VCL")
        serve(origin, cache=policy(), timeouts=wire.Timeouts(request=9000))
        ghost.load_vcl()
        ghost.admin("vcl.state", name, "cold")
        ghost.admin("vcl.discard", name)
        assert get(ghost, "/page") == "hit"
        assert invalidate(ghost, uri("/page")) == [1]
        assert get(ghost, "/page") == "uri-miss"


def test_object_leaves_the_index_with_the_cache(ghost, serve):
    with ScriptedOrigin(answer()) as origin:
        serve(origin, cache=policy(ttl=300, keep=0))
        get(ghost, "/page")
        assert index(ghost)["objects"] == 1
        until(lambda: index(ghost)["objects"] == 0, "the object has expired")


def test_validated_object_replaces_the_stale_one(ghost, serve):
    """Varnishd makes a new object of the old one."""
    steps = [answer(headers=['ETag: "1"']), answer(304, b"", headers=['ETag: "1"'])]
    with ScriptedOrigin(*steps) as origin:
        serve(origin, cache=policy(ttl=100))
        for _ in range(3):
            get(ghost, "/page")
            until(lambda: get(ghost, "/page") != "hit", "the response is stale")
        until(lambda: index(ghost)["objects"] == 1, "one object is left")
        assert invalidate(ghost, uri("/page")) == [1]


@pytest.mark.parametrize("lines", [["Cache-Control: no-store"], ["Cache-Control: private"]])
def test_response_that_is_not_stored_is_not_in_the_index(ghost, serve, lines):
    with ScriptedOrigin(answer(headers=lines)) as origin:
        serve(origin, cache=policy())
        get(ghost, "/page")
        ghost.get("/page", host=HOST, method="OPTIONS")
        assert index(ghost)["objects"] == 0


def test_truncated_response_does_not_stay_in_the_index(ghost, serve):
    short = trickle([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", b"short"], 0.01)

    def step(connection, stop) -> bool:
        short(connection, stop)
        return False

    with ScriptedOrigin(step) as origin:
        serve(origin, cache=policy())
        ghost.raw(b"GET /page HTTP/1.1\r\nHost: tea.example\r\nConnection: close\r\n\r\n")
        until(lambda: index(ghost)["objects"] == 0, "the object is gone")
        assert invalidate(ghost, uri("/page")) == [0]


def test_object_of_user_vcl_without_a_policy_is_not_in_the_index(ghost, serve):
    with ScriptedOrigin(answer()) as origin:
        serve(origin)
        ghost.load_vcl("sub vcl_recv { if (!ghost.admin()) { return (hash); } }")
        forged = [("X-Ghost-Requested", "0 1 - 0 tea.example default/r/0 default/pages /page")]
        for _ in range(2):
            ghost.get("/page", host=HOST, headers=forged)
        assert len(origin.requests) == 1
        assert invalidate(ghost, EVERYTHING) == [0]


def objects(ghost) -> int:
    """Return how many objects varnishd has."""
    call = ["varnishstat", "-1", "-n", str(ghost.directory / "varnish"), "-f", "MAIN.n_object"]
    return int(subprocess.run(call, capture_output=True, text=True, check=True).stdout.split()[1])


@pytest.mark.timeout(120)
def test_index_is_exact_after_evictions_invalidations_and_reloads_under_load():
    """Objects of 500 KB evict each other from the store of 64 MB; some live for a moment, and some are validated."""
    lines = ["Surrogate-Key: a b", 'ETag: "1"']
    large, small = answer(body=b"x" * 500_000, headers=lines), answer(headers=lines)
    brief = answer(headers=[*lines, "Cache-Control: max-age=0, stale-while-revalidate=1"])
    stop = threading.Event()

    def step(connection, ended) -> bool:
        connection.settimeout(20)
        return random.choice((large, small, small, brief))(connection, ended)

    def read(seed: int) -> int:
        numbers = random.Random(seed)
        with ghost.client() as client:
            for count in itertools.count():
                if stop.is_set():
                    return count
                client.get(f"/{numbers.randrange(400)}", host=HOST)
        raise AssertionError

    def config(keep: int) -> Config:
        rule = to(backend("pool"), cache=policy(tag_headers=("Surrogate-Key",), keep=keep))
        return Config([route("r", rule)], {"pool": [origin.endpoint]})

    with ScriptedOrigin(step) as origin, GhostHarness(config(5000)) as ghost, ThreadPoolExecutor() as clients:
        readers = [clients.submit(read, seed) for seed in range(4)]
        for turn in range(30):
            mode = ("soft", "hard")[turn % 2]
            invalidate(ghost, uri(f"/{turn}"), prefix("/1"), {"tags": ["a"]}, mode=mode)
            if turn % 10 == 5:
                ghost.load_vcl()
            if turn % 10 == 8:
                assert ghost.reload(config(5000 + turn)).status == 200
        stop.set()
        assert sum(reader.result() for reader in readers) > 100
        until(lambda: index(ghost)["objects"] == objects(ghost), "the index has what varnishd has")
        assert index(ghost)["tags"] == 2 * index(ghost)["objects"]
        assert sum(index(ghost)["refused"].values()) == 0
        invalidate(ghost, EVERYTHING)
        until(lambda: (index(ghost)["objects"], objects(ghost)) == (0, 0), "nothing is left")


@pytest.mark.skipif(not PANICKING.exists(), reason="needs a build with the feature test-panic")
def test_object_that_is_visible_but_not_yet_in_the_index_is_not_used_after_an_invalidation():
    """Ghost is held before it puts the object into the index."""
    steps = answer(body=b"old", headers=['ETag: "1"']), answer(body=b"new")
    with ScriptedOrigin(*steps) as origin, open_directory() as directory, ThreadPoolExecutor() as clients:
        directory.chmod(0o777)  # varnishd's user writes to it
        config = Config([route("r", to(backend("pool"), cache=policy()))], {"pool": [origin.endpoint]})
        with GhostHarness(config, vmod=PANICKING, environment={"GHOST_TEST_HOLD": str(directory)}) as ghost:
            hold = directory / "arrive"
            hold.touch()
            first = clients.submit(ghost.get, "/page", host=HOST)
            until(hold.with_suffix(".held").exists, "ghost is held")
            assert invalidate(ghost, uri("/page")) == [0]
            second = clients.submit(ghost.get, "/page", host=HOST)
            until(lambda: second.done() or len(origin.requests) == 2, "the cache has answered, or asked the origin")
            hold.unlink()
            assert (first.result().body, second.result().body) == (b"old", b"new")


def test_response_that_the_index_has_no_room_for_is_not_stored():
    """The index takes half of the store: 32 MB. An object with 1,024 tags of its own takes about 60 KB of it."""
    with ScriptedOrigin(*map(crowded, range(2000))) as origin, GhostHarness(Config()) as ghost:
        rule = to(backend("pool"), cache=policy(grace=60_000, tag_headers=("Surrogate-Key",)))
        assert ghost.reload(Config([route("r", rule)], {"pool": [origin.endpoint]})).status == 200
        stored = fill(ghost, HOST)
        held = index(ghost)
        assert (held["objects"], held["refused"]["index-full"]) == (stored, 1)
        assert held["limit"] == 32 << 20
        assert held["bytes"] <= held["limit"]
        invalidate(ghost, EVERYTHING)
        until(lambda: index(ghost)["objects"] == 0, "the index is empty")
        assert reason(ghost.get("/room", host=HOST)) == "uri-miss default-ttl"


@pytest.mark.timeout(180)
def test_tenant_that_fills_its_share_of_the_index_leaves_room_to_others():
    """Unique tags of one namespace must not end the caching of all."""
    rule = to(backend("pool"), cache=policy(grace=60_000, tag_headers=("Surrogate-Key",)))
    other = wire.Route(
        namespace="other",
        name="r",
        attachments=(wire.Attachment(listener="http", hostnames=("other.example",)),),
        rules=(rule,),
    )
    routes = [route("r", rule, hosts=[HOST]), other]
    with ScriptedOrigin(*map(crowded, range(2000))) as origin, GhostHarness(Config()) as ghost:
        assert ghost.reload(Config(routes, {"pool": [origin.endpoint]})).status == 200
        # Each of the 16 shards has its part of the share.
        fill(ghost, HOST, refusals=100)
        for number in range(3):
            answer = ghost.get(f"/{number}", host="other.example")
            assert reason(answer) == "uri-miss default-ttl"
        assert get(ghost, "/0", host="other.example") == "hit"
        assert reason(ghost.get("/later", host=HOST)) == "uri-miss index-full"
        assert index(ghost)["bytes"] <= index(ghost)["limit"]


def fill(ghost, host: str, *, refusals: int = 1) -> int:
    """Ask for different objects until so many in a row are not stored; return how many were."""
    stored = refused = 0
    with ghost.client() as client:
        for number in range(1800):
            is_stored = reason(client.get(f"/{number}", host=host)) != "uri-miss index-full"
            stored, refused = (stored + 1, 0) if is_stored else (stored, refused + 1)
            if refused == refusals:
                return stored
    raise AssertionError("the index is never full")


def crowded(number: int):
    tags = [f"{number}-{tag}" for tag in range(1024)]
    return answer(headers=["Surrogate-Key: " + " ".join(tags[begin : begin + 512]) for begin in (0, 512)])
