"""The endpoint against a varnishd made of a few lines."""

import asyncio

import pytest

from varnish_gateway.dataplane.varnish.cli.connection import CliListener
from varnish_gateway.dataplane.varnish.cli.protocol import CliError, CliStatus, challenge_response

SECRET = b"secret\n"
CHALLENGE = "a" * 32 + "\n\nAuthentication required.\n"


def answer(status: int, text: str) -> bytes:
    return f"{status:<3} {len(text):<8}\n{text}\n".encode()


@pytest.fixture
async def endpoint():
    endpoint = CliListener(SECRET)
    await endpoint.open(0)
    yield endpoint
    await endpoint.close()


async def call_in(endpoint, *, knows=SECRET):
    """Call as varnishd does and check the response to the challenge."""
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    writer.write(answer(107, CHALLENGE))
    line = (await reader.readline()).decode().strip()
    right = line == f"auth {challenge_response(CHALLENGE, knows)}"
    writer.write(answer(200 if right else 107, "banner"))
    return reader, writer


async def test_commands_are_answered_in_turn(endpoint):
    reader, writer = await call_in(endpoint)
    connection = await endpoint.connection(2)
    calls = [asyncio.create_task(connection.call(f"c{number}", timeout=2)) for number in range(3)]
    for number in range(3):
        assert await reader.readline() == f"c{number}\n".encode()
        writer.write(answer(200, str(number)))
    assert await asyncio.gather(*calls) == ["0", "1", "2"]
    writer.close()


async def test_cli_error_has_status_and_text(endpoint):
    reader, writer = await call_in(endpoint)
    connection = await endpoint.connection(2)
    call = asyncio.create_task(connection.call("vcl.use", "x", timeout=2))
    await reader.readline()
    writer.write(answer(106, "No configuration named x known."))
    with pytest.raises(CliError, match="No configuration named x") as raised:
        await call
    assert raised.value.status == CliStatus.PARAMETER
    writer.close()


async def test_late_answer_does_not_answer_the_next_command(endpoint):
    _, writer = await call_in(endpoint)
    connection = await endpoint.connection(2)
    with pytest.raises(CliError, match="no answer within") as raised:
        await connection.call("ping", timeout=0.01)
    assert raised.value.status == CliStatus.COMMUNICATION
    assert not connection.open
    writer.close()


async def test_caller_without_the_secret_is_rejected(endpoint, caplog):
    _, writer = await call_in(endpoint, knows=b"other\n")
    with pytest.raises(CliError, match="did not call"):
        await endpoint.connection(0.1)
    assert "does not accept the secret" in caplog.text
    writer.close()


async def test_varnishd_may_connect_again(endpoint):
    _, first = await call_in(endpoint)
    before = await endpoint.connection(2)
    first.close()
    async with asyncio.timeout(5):
        with pytest.raises(CliError, match="connection lost"):
            await before.call("ping", timeout=2)
    reader, second = await call_in(endpoint)
    after = await endpoint.connection(2)
    assert after is not before
    call = asyncio.create_task(after.call("ping", timeout=2))
    await reader.readline()
    second.write(answer(200, "second"))
    assert await call == "second"
    second.close()


async def test_calls_fail_at_once_after_varnishd_exited(endpoint):
    """Also those that wait already: a varnishd that exited never calls again."""
    waiting = asyncio.create_task(endpoint.connection(3600))
    await asyncio.sleep(0)
    endpoint.hang_up()
    with pytest.raises(CliError, match="the connection was closed"):
        await waiting
    with pytest.raises(CliError, match="the connection was closed"):
        await endpoint.connection(3600)


async def test_next_varnishd_is_expected_after_the_last_one_exited(endpoint):
    endpoint.hang_up()
    endpoint.forget()
    waiting = asyncio.create_task(endpoint.connection(2))
    _, writer = await call_in(endpoint)
    assert (await waiting).open
    writer.close()
