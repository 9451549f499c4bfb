"""ghost behind a real HAProxy: misdirected requests, the scheme that backends receive, WebSockets."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest

from support.http import client as http_client
from support.http.client import Request, over_http1, over_http2
from support.http.scripted_origin import ScriptedOrigin
from support.http.websocket import HANDSHAKE, echo
from support.varnish.dataplane import endpoints, must_serve, port_of
from support.varnish.tls import https, pair, secure, tls
from varnish_gateway.dataplane.change import Change
from varnish_gateway.ir import wire


def routing(port: int) -> dict[int, bytes | None]:
    """Three listeners on the port, for every host, one.org and *.two.org; and a plain one."""
    hostnames = {"any": "*", "one": "one.org", "two": "*.two.org"}
    listeners = [
        wire.Listener(name=name, socket=f"https-{port}", port=port, scheme="https", hostname=hostname)
        for name, hostname in hostnames.items()
    ]
    listeners.append(wire.Listener(name="http", socket="http-1", port=1))
    routes = [
        wire.Route(
            namespace="n",
            name=name,
            attachments=tuple(wire.Attachment(listener=listener) for listener in served),
            rules=(wire.Rule(backends=(wire.Backend(service=f"n/{name}", port=80),)),),
        )
        for name, served in {"tea": ("any", "http"), "one": ("one",), "two": ("two",)}.items()
    ]
    shard = wire.Routing(version=2, listeners=tuple(listeners), routes=tuple(routes))
    return {0: msgspec.json.encode(shard)}


@pytest.fixture
def socket_origin() -> Iterator[ScriptedOrigin]:
    with ScriptedOrigin(echo) as origin:
        yield origin


@pytest.fixture
async def gateway(origins, socket_origin) -> AsyncIterator[tuple[int, int]]:
    """Give the ports of the https and of the plain socket."""
    certificates = [(pair(name), [name]) for name in ("default", "one.org", "*.two.org")]
    async with https(origins, *certificates) as (plane, port):
        slices = endpoints("one", await origins.port("one")) | endpoints("two", socket_origin.endpoint.port)
        change = Change(routing=routing(port), slices=slices, tls=tls(port, *certificates))
        await must_serve(plane, change)
        yield port, port_of(plane)


def get(host: str, **parts) -> Request:
    return Request(method="GET", target="/", host=host, **parts)


async def test_request_on_a_connection_of_another_listener_gets_421(gateway):
    port, _ = gateway
    for _ in range(3):  # no matter which client used a connection to varnishd before
        hosts = ["one.org", "other.org", "a.two.org", "one.org"]
        answers = await over_http2(secure(port, "one.org", alpn=["h2"]), [get(host) for host in hosts])
        assert [answer.answered_by for answer in answers] == ["one", 421, 421, "one"]
        answers = await over_http2(secure(port, "unknown.org", alpn=["h2"]), [get(host) for host in hosts[:2]])
        assert [answer.answered_by for answer in answers] == [421, "tea"]
        assert (await over_http1(secure(port, "one.org"), get("other.org").as_http1())).answered_by == 421
        assert (await over_http1(secure(port, None), get("one.org").as_http1())).answered_by == "one"


async def test_backends_receive_the_scheme_of_the_listener(gateway):
    port, plain = gateway
    forged = get("x.org", headers=(("X-Forwarded-Proto", "gopher"),))
    answers = [
        await over_http1(secure(port, "x.org"), forged.as_http1()),
        *await over_http2(secure(port, "x.org", alpn=["h2"]), [forged]),
        await over_http1(plain, forged.as_http1()),
    ]
    reported = [
        [value for name, value in answer.json["headers"] if name.lower() == "x-forwarded-proto"] for answer in answers
    ]
    assert reported == [["https"], ["https"], ["http"]]


async def test_websocket_over_tls_echoes(gateway, socket_origin):
    port, _ = gateway
    reader, writer = await http_client.connect(secure(port, "a.two.org"))
    writer.write(HANDSHAKE.replace(b"example.com", b"a.two.org"))
    async with asyncio.timeout(http_client.SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 ")
        for message in (b"hello", b"x" * 100_000):
            writer.write(message)
            assert await reader.readexactly(len(message)) == message
    writer.close()
    assert b"x-forwarded-proto: https" in socket_origin.requests[0].lower()
