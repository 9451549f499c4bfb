"""Fixtures of all tests with a real varnishd.

What these tests are made of, from the bottom up:
loopback, places, processes, waiting   ports, directories, processes, deadlines
origins, talk, load                    what is behind a gateway, and in front of it
manifests                              what a user writes
ghostlab                               a varnishd with ghost, configured through its files
chaperonelab                           a data plane, fed with changes
caselab                                a data plane, fed with cases/*.yaml
running                                ``vgw run`` as a process
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
