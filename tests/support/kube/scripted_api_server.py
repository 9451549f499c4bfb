"""An API server with scripted answers, for those that a real one cannot be made to give."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

from aiohttp import web

from varnish_gateway.kube.client import Client
from varnish_gateway.kube.connection import Connection
from varnish_gateway.kube.limits import Limits


class ScriptedApiServer:
    """Answers requests in turn with what was planned; the last plan stays."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.end = asyncio.Event()
        self._plan: list[Callable[[web.Request], Any]] = []

    @property
    def lists(self) -> list[str]:
        return [path for path in self.asked if "watch=" not in path]

    def then(self, status: int = 200, body: Any = None, **headers: str) -> Self:
        """Answer with JSON, or with bytes as they are."""
        content = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        headers.setdefault("Content-Type", "application/json")

        async def answer(_: web.Request) -> web.Response:
            return web.Response(status=status, body=content, headers=headers)

        self._plan.append(answer)
        return self

    def then_stream(self, *chunks: bytes, stay: bool = False) -> Self:
        """Answer a watch chunk by chunk, and end it, or keep it open."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for chunk in chunks:
                await response.write(chunk)
            if stay:
                await self.end.wait()
            return response

        self._plan.append(answer)
        return self

    def then_hang(self) -> Self:
        """Accept the request and never answer."""

        async def answer(_: web.Request) -> web.Response:
            await self.end.wait()
            return web.Response()

        self._plan.append(answer)
        return self

    def then_break(self) -> Self:
        """Cut the connection without an answer."""

        async def answer(request: web.Request) -> web.Response:
            request.transport.abort()
            return web.Response()

        self._plan.append(answer)
        return self

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path_qs}")
        plan = self._plan.pop(0) if len(self._plan) > 1 else self._plan[0]
        return await plan(request)


@asynccontextmanager
async def client_of(server: ScriptedApiServer, **limits: float) -> AsyncIterator[Client]:
    """Give a client of the server."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    connection = Connection(server=f"http://127.0.0.1:{port}", ssl=None)
    try:
        async with Client(connection, user_agent="test", limits=Limits(**limits)) as client:
            yield client
    finally:
        server.end.set()
        await runner.cleanup()
