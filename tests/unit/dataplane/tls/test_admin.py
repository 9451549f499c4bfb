import asyncio

import pytest

from varnish_gateway.dataplane.tls.admin import AdminSocket

STATISTICS = b"# pxname,svname,scur\nhttps-443,FRONTEND,2\nhttps-444,FRONTEND,3\n\n"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (STATISTICS, [("https-443", "2"), ("https-444", "3")]),
        (b"", []),  # HAProxy ends: the connection is closed without a word
    ],
)
async def test_the_rows_of_ports(tmp_path, text, rows):
    async def answer(reader, writer):
        await reader.readline()
        writer.write(text)
        writer.close()

    path = tmp_path / "admin.sock"
    async with await asyncio.start_unix_server(answer, path):
        found = await AdminSocket(path).frontends()
    assert [(row["pxname"], row["scur"]) for row in found] == rows
