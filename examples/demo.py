"""Run one of the examples with small origins of its own, until Ctrl-C.

Usage: demo.py DIRECTORY

Each address in the example's EndpointSlices gets a small HTTP server that answers with the
name of its Service and what it was asked; then ``vgw run DIRECTORY`` takes the foreground.
"""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import yaml
from aiohttp import web

SHOWN = ("x-gateway-", "x-internal", "x-env", "x-version")
"""Request headers that an origin shows in its answer, by prefix."""


def origins_of(directory: Path) -> dict[tuple[str, int], str]:
    """Return the addresses that the example's EndpointSlices name, each with its Service."""
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


def answering(service: str) -> web.Application:
    """Return a server that says who it is and what it was asked."""

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
        runner = web.AppRunner(answering(service), access_log=None)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, address, port).start()


def things_to_try(directory: Path) -> list[str]:
    """Return the curl lines of the example's README."""
    lines = (directory / "README.md").read_text().splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ curl")]


async def main(directory: Path) -> int:
    async with contextlib.AsyncExitStack() as stack:
        await serve_origins(stack, origins_of(directory))
        print(f"{directory.name}: try, in another terminal")
        for line in things_to_try(directory):
            print(f"  {line}")
        gateway = await asyncio.create_subprocess_exec(sys.executable, "-m", "varnish_gateway", "run", str(directory))
        loop = asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            # Ctrl-C reaches the gateway too, as it shares the terminal; a plain kill does not.
            loop.add_signal_handler(name, lambda: gateway.returncode is None and gateway.terminate())
        return await gateway.wait()


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit(__doc__)
    sys.exit(asyncio.run(main(Path(sys.argv[1]))))
