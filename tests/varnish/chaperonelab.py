"""A data plane with a real varnishd, for tests of the chaperone.

In:   VCL, sockets, routes by Service.
Out:  a running DataPlane in a directory that varnishd's users may enter, and its events.
"""

import asyncio
import contextlib
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec
from talk import Request, over_http1

from varnish_gateway.api import EndpointSlice, Key, decode, key_of
from varnish_gateway.chaperone import events
from varnish_gateway.chaperone.dataplane import Change, DataPlane
from varnish_gateway.chaperone.settings import Settings
from varnish_gateway.chaperone.sockets import parse_listen
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import UserVcl, wire

FREE_PORTS = "ghost-reload=127.0.0.1:0,http;http-1=127.0.0.1:0,http"
SECONDS = 10.0


@contextlib.contextmanager
def work_directory() -> Iterator[Path]:
    """Give a directory that varnishd's users may enter: pytest's own are closed to them."""
    directory = Path(tempfile.mkdtemp(prefix="vgw-chaperone-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.asynccontextmanager
async def running(listen: str = FREE_PORTS, **more: object) -> AsyncIterator[DataPlane]:
    """Give a started data plane without a configuration."""
    with work_directory() as directory:
        settings = Settings(work_dir=directory, sockets=parse_listen(listen), storage=("malloc,16m",), **more)
        data_plane = DataPlane(settings)
        try:
            await data_plane.start()
            yield data_plane
        finally:
            await data_plane.stop(0)


def user_vcl(text: str) -> str:
    return main_vcl(UserVcl(text=text, source="user.vcl"))


def saying(word: str) -> str:
    """User VCL that names itself in every answer."""
    return user_vcl(f'sub vcl_deliver {{ set resp.http.Says = "{word}"; }}')


def routing(*services: str) -> dict[int, bytes | None]:
    """One route per Service, for the host of that name."""
    routes = tuple(
        wire.Route(
            namespace="n",
            name=service,
            attachments=(wire.Attachment(listener="http", hostnames=(service,)),),
            rules=(wire.Rule(backends=(wire.Backend(service=f"n/{service}", port=80),)),),
        )
        for service in services
    )
    shard = wire.Routing(version=2, listeners=(wire.Listener(name="http", socket="*"),), routes=routes)
    return {0: msgspec.json.encode(shard)}


def endpoints(service: str, *ports: int) -> dict[Key, EndpointSlice | None]:
    """One EndpointSlice per local port."""
    pieces = [decode(slice_document(service, port)) for port in ports]
    return {key_of(piece): piece for piece in pieces if isinstance(piece, EndpointSlice)}


def slice_document(service: str, port: int) -> dict[str, object]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{service}-{port}",
            "namespace": "n",
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "ports": [{"port": port}],
        "endpoints": [{"addresses": ["127.0.0.1"]}],
    }


async def must_serve(data_plane: DataPlane, change: Change) -> None:
    outcome = await data_plane.apply(change)
    assert outcome.serves, outcome.problems


def port_of(data_plane: DataPlane, name: str = "http-1") -> int:
    return next(address.port for address in data_plane.supervisor.addresses if address.name == name)


async def ask(port: int, host: str = "tea") -> tuple[int, dict[str, str]]:
    """Return status and headers; status 0 where there is no answer."""
    try:
        answer = await over_http1(port, Request(method="GET", target="/", host=host).as_http1())
    except (OSError, TimeoutError):
        return 0, {}
    return answer.status, dict(answer.headers)


async def until(holds: Callable[[], object], seconds: float = SECONDS) -> float:
    """Wait until holds() is true; return how long it took."""
    started = time.monotonic()
    while not holds():
        assert time.monotonic() - started < seconds, "it did not happen in time"
        await asyncio.sleep(0.005)
    return time.monotonic() - started


async def until_answer(port: int, status: int, host: str = "tea", seconds: float = SECONDS) -> float:
    started = time.monotonic()
    while (got := (await ask(port, host))[0]) != status:
        assert time.monotonic() - started < seconds, f"still {got}"
        await asyncio.sleep(0.005)
    return time.monotonic() - started


async def until_header(port: int, name: str, value: str, host: str = "tea") -> None:
    started = time.monotonic()
    while (got := (await ask(port, host))[1].get(name)) != value:
        assert time.monotonic() - started < SECONDS, f"still {got}"
        await asyncio.sleep(0.005)


def heard(data_plane: DataPlane, kind: type[events.Event]) -> list[events.Event]:
    return [record.event for record in data_plane.bus.history if isinstance(record.event, kind)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
