"""Have ghost ask its clients to leave, because the data plane drains.

In:   the port of the reload socket.
Out:  from then on ghost's responses say ``Connection: close``; ConnectionError where ghost doesn't confirm it.
It can't be undone, so ghost takes only a POST for the host localhost: nothing that follows a link may cause it.
The worker of varnishd keeps this in memory: one that varnishd restarts has to be asked again.
"""

from varnish_gateway.dataplane.ghost.loopback import post

PATH = "/.varnish-ghost/drain"
ANSWER_SECONDS = 5.0


async def begin_drain(port: int) -> None:
    """Return once ghost has confirmed; asking twice changes nothing."""
    status, _, _ = await post(port, PATH, ANSWER_SECONDS)
    if status != 200:
        raise ConnectionError(f"the reload socket answered {status} to the drain, so connections are kept alive")
