import asyncio
import time

from varnish_gateway.dataplane.process import drain

ROWS = [
    "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0",
    "   1: 0100007F:1F91 0100007F:A2C4 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0",
]


def test_only_established_connections_count():
    assert list(drain.local_ports(ROWS)) == [0x1F91]


async def test_drain_without_connections_ends_soon():
    async with asyncio.timeout(20):
        await drain.until_idle({1}, 600)


async def test_wait_for_a_connection_times_out():
    accepted = []
    server = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    started = time.monotonic()
    await drain.until_idle({port}, 0.5)
    assert time.monotonic() - started >= 0.5
    for end in (writer, *accepted):
        end.close()
    server.close()
