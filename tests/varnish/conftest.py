"""Fixtures of all tests with a real varnishd.

Helpers in tests/support, from the bottom up:
directories, processes, waiting       directories that varnishd may enter, /proc, polling with a deadline
http/origins, scripted_origin         backends
http/client, load, websocket          clients
manifests                             YAML as a user writes it
varnish/ghost                         a varnishd with ghost, configured through its files
varnish/invalidation                  invalidations on the reload socket
varnish/stepped_clock                 a clock of varnishd that a test moves
varnish/dataplane, tls                a data plane that receives changes, with TLS
varnish/cases                         a data plane that receives cases/*.yaml
vgw_process                           ``vgw run`` and ``vgw chaperone`` as processes
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import pytest

from support.directories import open_directory
from support.http.origins import Origin, Origins
from support.http.scripted_origin import ScriptedOrigin
from support.varnish.ghost import Config, GhostHarness, backend, route, to
from support.varnish.invalidation import index, invalidate
from support.varnish.stepped_clock import SteppedClock
from support.waiting import until
from varnish_gateway.ir import wire


@pytest.fixture
async def origins() -> AsyncIterator[Origins]:
    origins = Origins()
    yield origins
    await origins.close()


# -- one rule, for what it asks of its endpoints -----------------------------------------------------


@pytest.fixture(scope="module")
def clock() -> Iterator[SteppedClock]:
    """Give a clock for the varnishd of a module, which overrides ``environment`` with the clock's."""
    with open_directory() as directory:
        yield SteppedClock(directory)


@pytest.fixture(scope="module")
def environment() -> Mapping[str, str]:
    """Return the environment of a module's varnishd."""
    return {}


@pytest.fixture(scope="module")
def ghost(environment: Mapping[str, str]) -> Iterator[GhostHarness]:
    """Run a varnishd for the tests of a module; its worker has to live through all of them."""
    with GhostHarness(Config(), environment=environment) as running:
        child = running.child
        yield running
        assert running.child == child


@pytest.fixture
def serve(ghost: GhostHarness) -> Callable[..., GhostHarness]:
    """Give what serves one rule from these endpoints."""

    def reload(*endpoints: ScriptedOrigin | Origin | wire.Endpoint, **rule: Any) -> GhostHarness:
        members = [one if isinstance(one, wire.Endpoint) else one.endpoint for one in endpoints]
        assert ghost.reload(Config([route("r", to(backend("pool"), **rule))], {"pool": members})).status == 200
        return ghost

    return reload


@pytest.fixture
def user_vcl() -> str:
    """Return the user VCL of tests with an empty cache; modules override it."""
    return ""


@pytest.fixture
def empty_cache(ghost: GhostHarness, user_vcl: str) -> None:
    """Let a test begin with an empty cache and with the user VCL of its module."""
    ghost.load_vcl(user_vcl)
    ghost.admin("ban", "req.url ~ .")


@pytest.fixture
def empty_index(ghost: GhostHarness) -> None:
    """Let a test begin without an object under a policy."""
    invalidate(ghost, {"everything": True})
    until(lambda: index(ghost)["objects"] == 0, "the index is empty")


@pytest.fixture
def unseen_origins(tea: Origin, coffee: Origin) -> None:
    """Forget what the origins have seen in other tests."""
    tea.seen.clear()
    coffee.seen.clear()
