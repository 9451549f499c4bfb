"""Both kinds of reload: nothing is lost, nothing grows, a failure changes nothing."""

import contextlib
import json
import os
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from support import processes
from support.http.client import Answer
from support.http.origins import Origin
from support.varnish.ghost import (
    CACHE_EVERYTHING,
    Config,
    GhostHarness,
    VarnishError,
    backend,
    load,
    prefix,
    refusing_endpoint,
    route,
    to,
)
from support.waiting import until
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import wire

RELOADS = int(os.environ.get("GHOST_RELOADS", "100"))


@pytest.fixture
def ghost(tea) -> Iterator[GhostHarness]:
    with GhostHarness(serving("tea", tea)) as running:
        yield running


def serving(service: str, *endpoints: Origin | wire.Endpoint) -> Config:
    return Config([route("drink", to(backend(service)))], {service: endpoints})


def many_routes(count: int, service: str, origin: Origin, shards: int = 16) -> Config:
    routes = [route(f"r{n}", to(backend(service), matches=[prefix(f"/{n}")])) for n in range(count)]
    return Config(routes, {service: [origin]}, shards=shards)


def failures(results: list[Answer | Exception]) -> list[Answer | Exception]:
    return [one for one in results if isinstance(one, Exception) or one.status != 200]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_reload_serves_the_new_configuration_and_names_it(ghost, coffee, method):
    config = serving("coffee", coffee)
    config.id = "second"
    answer = ghost.reload(config, method=method)
    assert (answer.status, answer.json) == (200, {"id": "second", "routes": 1, "pools": 1})
    assert ghost.get().origin == "coffee"


def test_the_reload_endpoint_is_for_the_loopback_socket_alone(tea):
    sockets = ["http-80", "http-8080"]
    with GhostHarness(Config(), sockets=sockets) as ghost:
        for name in sockets:
            for page in ("reload", "counters"):
                assert ghost.get(f"/.varnish-ghost/{page}", socket=name).status == 404
        ghost.reload(serving("tea", tea))
        assert ghost.get("/.varnish-ghost/reload").origin == "tea"  # a route may take it
        assert ghost.get("/", socket="ghost-reload").status == 404
        assert ghost.get("/.varnish-ghost/nothing", socket="ghost-reload").status == 404
        assert ghost.reload(method="DELETE").status == 405


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "ghost.json: "),
        (b'{"version": 3}', "version 3 is not known"),
        (b'{"version": 2, "id": "x", "routing": ["absent.json"]}', "absent.json: "),
        (b'{"version": 2, "id": "x", "routing": ["../outside.json"]}', "not the name of a file beside it"),
        (b'{"version": 2, "id": "x", "unknown": 1}', "unknown"),
        (b'{"version": 1, "vhosts": {"a": {"backends": [{"address": "nowhere", "port": 1}]}}}', "not an IP address"),
    ],
)
def test_rejected_configuration_changes_nothing(ghost, text, reason):
    answer = ghost.reload(text)
    assert answer.status == 500
    assert reason in (answer.header("x-ghost-error") or "")
    assert reason in answer.json["reason"]
    assert ghost.get().origin == "tea"


def test_a_regex_that_does_not_compile_names_its_route(ghost, tea):
    bad = wire.Match(path=wire.PathMatch(type="regex", value="/("))
    answer = ghost.reload(Config([route("bad", to(backend("tea"), matches=[bad]))], {"tea": [tea]}))
    assert answer.status == 500
    assert "default/bad" in (answer.header("x-ghost-error") or "")
    assert ghost.get().origin == "tea"


def test_a_vcl_does_not_load_without_a_configuration(ghost):
    ghost.config_path.unlink()
    with pytest.raises(VarnishError, match=r"can't load the configuration: .*ghost\.json: No such file"):
        ghost.load_vcl()
    assert ghost.get().origin == "tea"


def test_path_in_vcl_takes_precedence_over_the_environment(ghost, coffee):
    directory = ghost.directory / "elsewhere"
    directory.mkdir()
    serving("coffee", coffee).write(directory)
    ghost.load_vcl(
        whole=f"""vcl 4.1;
        import ghost;
        backend none none;
        sub vcl_init {{ ghost.init("{directory}/ghost.json"); }}
        sub vcl_recv {{ set req.backend_hint = ghost.recv(); return (pass); }}
        sub vcl_backend_fetch {{ set bereq.backend = ghost.fetch(bereq.backend); }}
    """
    )
    assert ghost.get().origin == "coffee"


def test_version_1_serves_every_socket(tea, coffee):
    def address(origin: Origin) -> dict[str, object]:
        return {"address": "127.0.0.1", "port": origin.port, "weight": 100}

    text = {
        "version": 1,
        "vhosts": {
            "tea.example.com": {"backends": [address(tea)]},
            "*.example.com": {"backends": [address(coffee)]},
        },
        "default": {"backends": [address(tea), address(coffee)]},
    }
    with GhostHarness(json.dumps(text).encode(), sockets=["http-80", "http-81"]) as ghost:
        for name in ("http-80", "http-81"):
            assert ghost.get(host="tea.example.com", socket=name).origin == "tea"
            assert ghost.get(host="x.example.com", socket=name).origin == "coffee"
        served = Counter(ghost.get(host="other").origin for _ in range(60))
        assert set(served) == {"tea", "coffee"}
        del text["default"]
        assert ghost.reload(json.dumps(text).encode()).status == 200
        assert ghost.get(host="other").status == 404


def test_reloads_under_load_lose_nothing(ghost, tea, coffee):
    with load(ghost) as results:
        for number in range(RELOADS):
            config = serving("tea", tea) if number % 2 else serving("coffee", coffee)
            assert ghost.reload(config).status == 200
            assert ghost.get().origin == ("tea" if number % 2 else "coffee")
    assert failures(results) == []
    assert len(results) > RELOADS


def test_endpoint_changes_under_load_lose_nothing(ghost, tea, coffee):
    with load(ghost) as results:
        for number in range(RELOADS):
            assert ghost.reload(serving("tea", *((tea, coffee), (tea,), (coffee,))[number % 3])).status == 200
    assert failures(results) == []
    assert {one.origin for one in results} == {"tea", "coffee"}


def test_vcl_reloads_under_load_lose_nothing(tea):
    # Otherwise idle workers keep the VCL of their last request for a minute.
    with GhostHarness(serving("tea", tea), parameters={"debug": "+vtc_mode"}) as ghost:
        with load(ghost) as results:
            for number in range(5):
                ghost.load_vcl(f"# edit {number}\n")
                ghost.admin("vcl.discard", f"vcl{number + 1}")
        assert failures(results) == []
        until(lambda: vcls(ghost) == ["vcl6"], "old VCLs are gone")
        assert ghost.get().origin == "tea"


def vcls(ghost: GhostHarness) -> list[str]:
    return [line.split()[-1] for line in ghost.admin("vcl.list").splitlines() if line]


def test_connections_survive_both_kinds_of_reload(ghost, tea):
    with ghost.client() as client:
        client.get()
        before = tea.connections
        for number in range(3):
            config = many_routes(number, "tea", tea)
            config.routes = [*config.routes, route("drink", to(backend("tea")))]
            ghost.reload(config)
            ghost.load_vcl(f"# edit {number}\n")
            assert client.get().origin == "tea"
    assert tea.connections == before


def test_older_vcl_catches_up(ghost, tea, coffee):
    ghost.load_vcl("# newer\n")
    ghost.reload(serving("coffee", coffee))
    ghost.admin("vcl.use", "vcl1")  # still warm, never asked to reload
    assert ghost.get().origin == "coffee"
    ghost.admin("vcl.use", "vcl2")
    ghost.admin("vcl.state", "vcl1", "cold")
    ghost.reload(serving("tea", tea))
    ghost.admin("vcl.state", "vcl1", "auto")
    ghost.admin("vcl.use", "vcl1")
    assert ghost.get().origin == "tea"
    assert "vcl1.rule(default/drink/0)" in ghost.admin("backend.list", "vcl1.*")


def test_one_request_updates_an_older_vcl_while_others_are_served(tea):
    workers = {"thread_pools": "1", "thread_pool_min": "200", "thread_pool_max": "200"}
    with GhostHarness(many_routes(1, "tea", tea), parameters=workers) as ghost:
        until(lambda: processes.threads(ghost.child) > 200, "varnishd has started all its workers")
        ghost.configure(many_routes(3000, "tea", tea))
        path = ghost.directory / "newer.vcl"
        path.write_text(main_vcl())
        with load(ghost, "/0", threads=16) as results:
            until(lambda: len(results) > 100, "varnishd is busy")
            with counted(ghost.child) as threads:
                ghost.admin("vcl.load", "newer", str(path))
                until(lambda: ghost.get("/2999").status == 200, "the VCL in use has caught up")
        assert not failures(results)
        # Those of the VCL that is loaded, and one that catches up.
        assert max(threads) - threads[0] <= 4


@contextlib.contextmanager
def counted(process: int) -> Iterator[list[int]]:
    """Count the threads of a process all the time."""
    counts = [processes.threads(process)]
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(0.001):
            counts.append(processes.threads(process))

    counter = threading.Thread(target=run)
    counter.start()
    try:
        yield counts
    finally:
        stop.set()
        counter.join()


def test_a_cold_vcl_holds_no_backends(ghost):
    ghost.load_vcl("# newer\n")
    ghost.admin("vcl.state", "vcl1", "cold")
    assert "127.0.0.1" not in ghost.admin("backend.list", "vcl1.*")


def test_only_changed_shards_are_read(ghost, tea):
    config = many_routes(64, "tea", tea)
    ghost.reload(config)
    for held in ghost.directory.glob("routing-*.json"):
        held.unlink()
    changed = Config([*config.routes, route("one-more", to(backend("tea")))], config.pools, shards=16)
    changed.write(ghost.directory)
    shards = json.loads(ghost.config_path.read_bytes())["routing"]
    number = next(n for n, name in enumerate(shards) if "one-more" in (ghost.directory / name).read_text())
    for name in shards[:number] + shards[number + 1 :]:
        (ghost.directory / name).unlink()
    assert ghost.reload().json["routes"] == 65


def test_a_change_of_the_number_of_shards_keeps_every_route(ghost, tea):
    for shards in (1, 16, 4):
        assert ghost.reload(many_routes(64, "tea", tea, shards)).json["routes"] == 64
        assert [ghost.get(f"/{n}").status for n in (0, 31, 63)] == [200] * 3
    assert ghost.reload(many_routes(63, "tea", tea, 4)).json["routes"] == 63
    assert ghost.get("/63").status == 404


def test_memory_is_flat_over_many_reloads(ghost, tea):
    def cycle(number: int) -> None:
        config = many_routes(200, "tea", tea)
        config.pools = {"tea": [tea, refusing_endpoint()]} if number % 2 else {"tea": [tea]}
        config.routes = config.routes[number % 7 :]
        assert ghost.reload(config).status == 200
        ghost.get("/150")

    for number in range(150):  # until malloc has its arenas
        cycle(number)
    before = ghost.resident_bytes
    for number in range(RELOADS):
        cycle(number)
    assert ghost.resident_bytes - before < 2 << 20


# -- counters --------------------------------------------------------------------------


def test_counters_by_route(tea):
    routes = [
        route("drink", to(backend("tea")), hosts=["tea"]),
        route("broken", wire.Rule(status=500), hosts=["broken"]),
    ]
    with GhostHarness(Config(routes, {"tea": [tea]}), user_vcl=CACHE_EVERYTHING) as ghost:
        for host in ("tea", "tea", "tea", "broken", "nowhere"):
            ghost.get(host=host)
        counters = ghost.counters()
        drink, broken = counters["routes"]["default/drink"], counters["routes"]["default/broken"]
        assert (drink["requests"], drink["hits"], drink["misses"], drink["passes"]) == (3, 2, 1, 0)
        assert drink["status"] == {"1xx": 0, "2xx": 3, "3xx": 0, "4xx": 0, "5xx": 0}
        assert drink["latency"]["count"] == 3
        assert drink["latency"]["buckets"][-1]["count"] == 3
        assert 0 < drink["latency"]["sum"] < 5
        assert (broken["requests"], broken["status"]["5xx"]) == (1, 1)
        assert counters["unrouted"]["status"]["4xx"] == 1


def test_counters_survive_reloads_and_go_with_their_route(ghost, tea):
    ghost.get()
    ghost.load_vcl("# edit\n")
    ghost.reload(many_routes(1, "tea", tea))
    assert "default/drink" not in ghost.counters()["routes"]
    ghost.reload(serving("tea", tea))
    assert ghost.counters()["routes"]["default/drink"]["requests"] == 0
    ghost.get()
    ghost.load_vcl("# another edit\n")
    ghost.reload(Config([*serving("tea", tea).routes, route("other", to(backend("tea")))], {"tea": [tea]}))
    ghost.get()
    assert ghost.counters()["routes"]["default/drink"]["requests"] == 2
