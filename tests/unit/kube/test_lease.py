"""Elections that meet what a healthy API server does not answer. The rest is in tests/apiserver."""

import asyncio

import pytest

from support.kube.scripted_api_server import ScriptedApiServer, client_of
from support.waiting import until_async
from varnish_gateway.kube.lease import Election


@pytest.mark.parametrize("answer", [{}, {"kind": "Status"}, b"[]", b"{"], ids=["nothing", "a Status", "a list", "half"])
async def test_answer_that_is_no_lease_neither_ends_the_election_nor_wins_it(answer):
    server = ScriptedApiServer().then(200, answer)
    async with client_of(server, attempts=1) as client:
        election = Election(client, namespace="n", name="l", identity="me", duration=3, renew_deadline=2, retry=0.01)
        campaigning = asyncio.create_task(election.run())
        await until_async(lambda: len(server.asked) > 2, "no second turn")
        assert not campaigning.done(), campaigning.exception()
        assert not election.holds()
        campaigning.cancel()
        await asyncio.wait({campaigning})
