"""Fixtures of all tests with a real varnishd.

Helpers in tests/support, from the bottom up:
directories, processes, waiting       directories that varnishd may enter, /proc, polling with a deadline
http/origins, scripted_origin         backends
http/client, load, websocket          clients
manifests                             YAML as a user writes it
varnish/ghost                         a varnishd with ghost, configured through its files
varnish/dataplane, tls                a data plane that receives changes, with TLS
varnish/cases                         a data plane that receives cases/*.yaml
vgw_process                           ``vgw run`` and ``vgw chaperone`` as processes
"""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from support.http.origins import Origin, Origins
from support.http.scripted_origin import ScriptedOrigin
from support.varnish.ghost import Config, GhostHarness, backend, route, to
from varnish_gateway.ir import wire


@pytest.fixture
async def origins() -> AsyncIterator[Origins]:
    origins = Origins()
    yield origins
    await origins.close()


# -- one rule, for what it asks of its endpoints -----------------------------------------------------


@pytest.fixture(scope="module")
def ghost() -> Iterator[GhostHarness]:
    """Run a varnishd for the tests of a module; its worker has to live through all of them."""
    with GhostHarness(Config()) as running:
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
