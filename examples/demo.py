"""Run one of the examples together with its origins, until Ctrl-C.

Usage: demo.py DIRECTORY

Starts a small HTTP server for each address in the example's EndpointSlices. It answers with the
name of its Service and a description of the request. ``vgw run DIRECTORY`` then runs in the foreground.
"""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import yaml
from aiohttp import web

SHOWN = ("x-gateway-", "x-internal", "x-env", "x-version")
"""Prefixes of the request headers that an origin includes in its answer."""


def origins_of(directory: Path) -> dict[tuple[str, int], str]:
    """Return the addresses in the example's EndpointSlices, each with its Service."""
    found: dict[tuple[str, int], str] = {}
    for path in sorted(directory.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if not document or document.get("kind") != "EndpointSlice":
                continue
            service = document["metadata"]["labels"]["kubernetes.io/service-name"]
            for endpoint in document["endpoints"]:
                for port in document["ports"]:
                    found[endpoint["addresses"][0], port["port"]] = service
    return found


def origin(service: str) -> web.Application:
    """Return a server that answers with its name and the request."""

    async def answer(request: web.Request) -> web.Response:
        shown = [
            f"  {name.lower()}: {value}" for name, value in request.headers.items() if name.lower().startswith(SHOWN)
        ]
        lines = [f"{service}: {request.method} {request.raw_path} for {request.host}", *sorted(shown)]
        return web.Response(text="\n".join(lines) + "\n")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    return app


async def serve_origins(stack: contextlib.AsyncExitStack, origins: dict[tuple[str, int], str]) -> None:
    """Start every origin; the stack stops them."""
    for (address, port), service in origins.items():
        runner = web.AppRunner(origin(service), access_log=None)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, address, port).start()


def suggested_commands(directory: Path) -> list[str]:
    """Return the curl lines of the example's README."""
    lines = (directory / "README.md").read_text().splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ curl")]


async def main(directory: Path) -> int:
    async with contextlib.AsyncExitStack() as stack:
        await serve_origins(stack, origins_of(directory))
        print(f"{directory.name}: try these commands in another terminal")
        for line in suggested_commands(directory):
            print(f"  {line}")
        gateway = await asyncio.create_subprocess_exec(sys.executable, "-m", "varnish_gateway", "run", str(directory))
        loop = asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            # Ctrl-C also reaches the gateway, which shares the terminal; a plain kill does not.
            loop.add_signal_handler(name, lambda: gateway.returncode is None and gateway.terminate())
        return await gateway.wait()


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit(__doc__)
    sys.exit(asyncio.run(main(Path(sys.argv[1]))))
