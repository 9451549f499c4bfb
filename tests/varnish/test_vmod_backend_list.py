"""``backend.list`` while everything changes: varnishd asks ghost's directors under the lock that removes directors."""

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.directories import open_directory
from support.http.origins import Origin
from support.processes import cpu_seconds
from support.varnish.ghost import PANICKING, Config, GhostHarness, backend, load, prefix, refusing_endpoint, route, to
from support.waiting import until
from varnish_gateway.ir import wire

GRACE_SECONDS = 1.0
"""How long ghost keeps what a reload replaced."""


@pytest.fixture(scope="module")
def tea() -> Iterator[Origin]:
    with Origin("tea") as origin:
        yield origin


@pytest.mark.skipif(not PANICKING.exists(), reason="needs a build with the feature test-panic")
def test_endpoints_that_a_reload_releases_during_the_list_leave_the_child_alone():
    """The child of varnishd 7.1 goes down when the last reference to a director is dropped under its lock."""
    routes = [route("any", to(backend("tea")))]
    stays, leaves = refusing_endpoint(), refusing_endpoint()
    with open_directory() as directory:
        directory.chmod(0o777)  # varnishd's user writes to it
        config = Config(routes, {"tea": [stays, leaves]})
        with GhostHarness(config, vmod=PANICKING, environment={"GHOST_TEST_HOLD": str(directory)}) as ghost:
            child = ghost.child
            # A reload has to be under way before the list: every fetch needs the lock when it begins.
            reloading = held(directory / "reload", ghost.reload, Config(routes, {"tea": [stays]}))
            listing = held(directory / "list", ghost.admin, "backend.list")
            (directory / "reload").unlink()
            time.sleep(2 * GRACE_SECONDS)  # nothing tells that ghost has let go of what it replaced
            (directory / "list").unlink()
            listing.join()
            reloading.join()
            until(lambda: f":{leaves.port}" not in ghost.admin("backend.list"), "varnishd removed the endpoint")
            assert ghost.child == child
            assert "Panic" not in ghost.output


def held(file: Path, work: Callable[..., object], *arguments: object) -> threading.Thread:
    """Start something that ghost holds while the file exists."""
    file.touch()
    thread = threading.Thread(target=work, args=arguments)
    thread.start()
    until(file.with_suffix(".held").exists, f"ghost holds {file.name}")
    return thread


@pytest.mark.parametrize("flags", [(), ("-p",), ("-j",), ("-j", "-p")], ids=["table", "probes", "json", "json-probes"])
def test_lists_during_reloads_and_traffic_fail_no_request(tea, flags):
    routes = [route("any", to(backend("tea")))]
    with GhostHarness(Config(routes, {"tea": [tea]})) as ghost:
        child = ghost.child
        done = threading.Event()

        def reload_on() -> None:
            while not done.is_set():
                ghost.reload(Config(routes, {"tea": [tea, refusing_endpoint()]}))
                ghost.reload(Config(routes, {"tea": [tea]}))

        reloading = threading.Thread(target=reload_on)
        with load(ghost, threads=2) as results:
            reloading.start()
            listed = [ghost.admin("backend.list", *flags, "*.*") for _ in range(30)]
            done.set()
            reloading.join()
        assert all("pool(default/tea:80)" in text for text in listed)
        assert [one for one in results if isinstance(one, Exception) or one.status != 200] == []
        assert ghost.child == child


def test_a_list_costs_what_there_is_to_list_whatever_pools_hold():
    """Not rules times endpoints: while it lasts, no director can be added or removed."""
    rules = [to(backend("tea"), matches=[prefix(f"/{number}")]) for number in range(64)]
    routes = [route(f"r{number}", *rules, hosts=[f"{number}.org"]) for number in range(40)]
    few = [wire.Endpoint(address="127.0.0.1", port=9)]
    many = [wire.Endpoint(address=f"127.1.{high}.{low}", port=9) for high in range(20) for low in range(100)]
    with GhostHarness(Config(routes, {"tea": few}), parameters={"cli_limit": "10m"}) as ghost:

        def seconds() -> float:
            """Return the CPU time of varnishd's worker for a list, which load of the machine doesn't change."""

            def one() -> float:
                began = cpu_seconds(ghost.child)
                assert ghost.admin("backend.list", "rule*").count(" 1/1 ") == len(rules) * len(routes)
                return cpu_seconds(ghost.child) - began

            return statistics.median(one() for _ in range(5))

        with_few = seconds()
        assert ghost.reload(Config(routes, {"tea": many})).status == 200
        assert "2000/2000" in ghost.admin("backend.list", "pool*")
        assert seconds() < 2 * with_few


def test_vcl_asks_for_the_health_of_each_endpoint(tea):
    """The line of a pool counts its endpoints, also one that an administrator declares sick."""
    with GhostHarness(Config([route("any", to(backend("tea")))], {"tea": [tea]})) as ghost:
        ghost.load_vcl("import std; sub vcl_deliver { set resp.http.Up = std.healthy(req.backend_hint); }")
        assert ghost.get().header("up") == "true"
        ghost.admin("backend.set_health", f"vcl2.127.0.0.1:{tea.port}", "sick")
        assert ghost.get().header("up") == "false"
        listed = [line.split() for line in ghost.admin("backend.list").splitlines()]
        health = {words[0]: words[1:4] for words in listed if words}
        assert health["vcl2.pool(default/tea:80)"] == ["probe", "1/1", "healthy"]
        assert health[f"vcl2.127.0.0.1:{tea.port}"][0] == "sick"
