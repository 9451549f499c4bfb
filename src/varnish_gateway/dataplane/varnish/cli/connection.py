"""The connection that varnishd opens to us.

``CliListener.open`` listens on loopback. Every caller is authenticated; the latest one that
knows the secret takes the commands, so varnishd may come back after a lost connection or
after its own restart. One command is under way at a time. A command that outlives its
time-out closes the connection, because its late answer would be taken for the next one.
"""

import asyncio
import logging
from asyncio import StreamReader, StreamWriter

from varnish_gateway.dataplane.varnish.cli.protocol import (
    CliError,
    CliStatus,
    challenge_response,
    read_answer,
    request_line,
)

AUTHENTICATION_SECONDS = 5.0

log = logging.getLogger(__name__)


class CliConnection:
    """One authenticated stream of commands and answers."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()

    async def call(self, command: str, *arguments: str, timeout: float) -> str:  # noqa: ASYNC109 - part of the protocol's contract: a time-out closes the stream
        """Return the answer's text; raise CliError for any status but success."""
        async with self._turn:
            try:
                async with asyncio.timeout(timeout):
                    self._writer.write(request_line(command, *arguments))
                    answer = await read_answer(self._reader)
            except TimeoutError:
                self.close()
                raise CliError(command, CliStatus.COMMUNICATION, f"no answer within {timeout:g} s") from None
            except (OSError, asyncio.IncompleteReadError, ValueError) as error:
                self.close()
                raise CliError(command, CliStatus.COMMUNICATION, f"connection lost: {error}") from error
            except asyncio.CancelledError:
                self.close()
                raise
        if answer.status not in (CliStatus.OK, CliStatus.TRUNCATED):
            raise CliError(command, answer.status, answer.text)
        return answer.text

    @property
    def open(self) -> bool:
        return not (self._writer.is_closing() or self._reader.at_eof())

    def close(self) -> None:
        self._writer.close()


class CliListener:
    """Where varnishd calls. ``port`` is the real one when 0 was asked for."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._server: asyncio.Server | None = None
        self._connection: CliConnection | None = None
        self._arrived = asyncio.Event()
        self.port = 0

    async def open(self, port: int) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self.forget()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def forget(self) -> None:
        """Drop the present connection: a new varnishd is about to call."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._arrived.clear()

    def hang_up(self) -> None:
        """Drop the connection of a varnishd that has exited: calls fail at once until ``forget`` expects a new one."""
        self.forget()
        self._arrived.set()

    async def connection(self, timeout: float) -> CliConnection:  # noqa: ASYNC109 - a caller says how long varnishd may be away
        """Return the connection in use, waiting for varnishd to call if there is none."""
        if self._connection is not None and not self._connection.open:
            self.forget()
        try:
            async with asyncio.timeout(timeout):
                await self._arrived.wait()
        except TimeoutError:
            raise CliError("connect", CliStatus.COMMUNICATION, f"varnishd did not call within {timeout:g} s") from None
        if self._connection is None:
            raise CliError("connect", CliStatus.COMMUNICATION, "the connection was closed")
        return self._connection

    async def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            async with asyncio.timeout(AUTHENTICATION_SECONDS):
                challenge = await read_answer(reader)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, ValueError) as error:
            log.warning("a caller on the admin port does not speak varnishd's protocol: %s", error)
            writer.close()
            return
        connection = CliConnection(reader, writer)
        response = challenge_response(challenge.text, self._secret)
        try:
            await connection.call("auth", response, timeout=AUTHENTICATION_SECONDS)
        except CliError as error:
            log.warning("varnishd does not accept the secret: %s", error)
            connection.close()
            return
        self.forget()
        self._connection = connection
        self._arrived.set()
