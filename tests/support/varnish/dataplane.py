"""A data plane with a real varnishd, for tests of the chaperone.

In:   VCL, sockets, routes by Service.
Out:  a running DataPlane in a directory that varnishd's users may enter, and its events.
"""

import contextlib
from collections.abc import AsyncIterator

import msgspec

from support.directories import open_directory
from support.http import client as http_client
from support.http.client import Answer
from support.waiting import TIMEOUT, until_async
from varnish_gateway.api import EndpointSlice, Key, key_of
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.assemble import collaborators
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.collaborators import Collaborators
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.decoding import decode
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import UserVcl, wire

FREE_PORTS = "ghost-reload=127.0.0.1:0,http;http-1=127.0.0.1:0,http"


@contextlib.asynccontextmanager
async def running(listen: str = FREE_PORTS, **more: object) -> AsyncIterator[DataPlane]:
    """Give a started data plane without a configuration."""
    async with running_with_parts(listen, **more) as (data_plane, _):
        yield data_plane


@contextlib.asynccontextmanager
async def running_with_parts(
    listen: str = FREE_PORTS, **more: object
) -> AsyncIterator[tuple[DataPlane, Collaborators]]:
    """Give a started data plane and its collaborators."""
    with open_directory() as directory:
        settings = Settings(work_dir=directory, sockets=parse_listen(listen), storage=("malloc,16m",), **more)
        parts = collaborators(settings)
        data_plane = DataPlane(settings, parts)
        try:
            await data_plane.start()
            yield data_plane, parts
        finally:
            await data_plane.stop(0)


def user_vcl(text: str) -> str:
    return main_vcl(UserVcl(text=text, source="user.vcl"))


def vcl_with_header(word: str) -> str:
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


async def ask(port: int, host: str = "tea") -> Answer:
    """Ask once; status 0 where there is no answer."""
    return await http_client.ask(port, host)


async def until_answer(port: int, status: int, host: str = "tea", seconds: float = TIMEOUT) -> None:
    async def answers() -> bool:
        return (await ask(port, host)).status == status

    await until_async(answers, f"{host} answers {status}", seconds)


async def until_header(port: int, name: str, value: str) -> None:
    async def has_it() -> bool:
        return (await ask(port)).header(name) == value

    await until_async(has_it, f"{name} is {value}")


async def until_published(data_plane: DataPlane, kind: type[events.Event]) -> None:
    await until_async(lambda: published(data_plane, kind), kind.__name__)


def published(data_plane: DataPlane, kind: type[events.Event]) -> list[events.Event]:
    return [record.event for record in data_plane.bus.history if isinstance(record.event, kind)]
