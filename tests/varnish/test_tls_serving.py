"""TLS with real HAProxy and varnishd: who gets which certificate, and what reaches the origin."""

import asyncio
import json
import ssl
from pathlib import Path

import pytest

from loopback import free_port
from support.http import client as http_client
from support.http.client import Request, over_http1, over_http2
from support.processes import program, working_in
from support.varnish.dataplane import (
    FREE_PORTS,
    ask,
    endpoints,
    must_serve,
    port_of,
    published,
    routing,
    running,
    user_vcl,
)
from support.varnish.tls import certificate_of, https, make_pair, pair, secure, tls
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.tls import events
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.emit.tls import encode_tls
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import Tls

MEGABYTE = 1 << 20


@pytest.fixture
async def plane(origins):
    async with https(origins) as (plane, port):
        yield plane, port


async def test_http1_and_http2_reach_the_origin(plane):
    plane, port = plane
    answer = await http_client.ask(secure(port), "tea")
    assert (answer.status, answer.origin) == (200, "tea")
    request = Request(method="GET", target="/x", host="tea")
    answers = await over_http2(secure(port, alpn=["h2"]), [request] * 3)
    assert [answer.answered_by for answer in answers] == ["tea"] * 3
    assert (await http_client.ask(port_of(plane), "tea")).answered_by == "tea"


async def test_served_certificates_are_reported(plane):
    plane, port = plane
    assert plane.served.ready
    assert plane.served.tls == content_hash(encode_tls(tls(port, (pair("tea"), ["tea"]))))


async def test_server_name_selects_the_certificate(origins):
    exact, wild, first = pair("www.example.com"), pair("*.example.com"), pair("default")
    listed = [(first, ["*"]), (exact, ["www.example.com"]), (wild, ["*.example.com"])]
    async with https(origins, *listed) as (_, port):
        assert await certificate_of(port, "www.example.com") == exact.der
        assert await certificate_of(port, "WWW.example.com") == exact.der
        assert await certificate_of(port, "other.example.com") == wild.der
        for name in ("example.com", "elsewhere.org", None):
            assert await certificate_of(port, name) == first.der


async def test_wildcard_matches_one_label(origins):
    """What HAProxy can't select: docs/concepts/tls-termination.md says so."""
    async with https(origins, (pair("default"), ["default"]), (pair("*.example.com"), ["*.example.com"])) as (_, port):
        assert await certificate_of(port, "a.b.example.com") == pair("default").der


async def test_certificate_is_selected_by_listener_hostnames_not_its_own_names(origins):
    wide = make_pair("a.example.com", "b.example.com")
    async with https(origins, (pair("default"), ["default"]), (wide, ["a.example.com"])) as (_, port):
        assert await certificate_of(port, "a.example.com") == wide.der
        assert await certificate_of(port, "b.example.com") == pair("default").der


async def test_client_abilities_select_among_certificates_of_one_name(origins):
    rsa, elliptic = pair("tea", kind="rsa2048"), pair("tea")
    async with https(origins, (pair("default"), ["default"]), (rsa, ["tea"]), (elliptic, ["tea"])) as (_, port):
        only_rsa = secure(port, "tea", maximum=ssl.TLSVersion.TLSv1_2)
        only_rsa.context.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")
        _, writer = await http_client.connect(only_rsa)
        assert writer.get_extra_info("ssl_object").getpeercert(binary_form=True) == rsa.der
        writer.close()
        assert await certificate_of(port, "tea") == elliptic.der


@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"])
async def test_old_tls_versions_are_rejected(plane, version):
    _, port = plane
    old = ssl.TLSVersion[version]
    with pytest.warns(DeprecationWarning, match="deprecated"):
        client = secure(port, minimum=old, maximum=old)
    client.context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol version|alert"):
        await http_client.connect(client)


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
async def test_new_tls_versions_are_accepted(plane, version):
    _, port = plane
    expected = ssl.TLSVersion[version]
    assert (await http_client.ask(secure(port, minimum=expected, maximum=expected), "tea")).answered_by == "tea"


@pytest.mark.parametrize("ciphers", ["AES128-SHA", "ECDHE-ECDSA-AES128-SHA", "DHE-RSA-AES128-GCM-SHA256"])
async def test_weak_ciphers_are_rejected(plane, ciphers):
    _, port = plane
    client = secure(port, maximum=ssl.TLSVersion.TLSv1_2)
    client.context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError, match=r"(?i)handshake failure"):
        await http_client.connect(client)


async def test_varnishd_knows_client_server_name_and_port(origins):
    vcl = user_vcl(
        """
import proxy; import std;
sub vcl_deliver {
    set resp.http.Client = client.ip;
    set resp.http.Socket = local.socket;
    set resp.http.Authority = proxy.authority();
    set resp.http.Tls = proxy.is_ssl();
    set resp.http.Port = std.port(server.ip);
}"""
    )
    async with https(origins) as (plane, port):
        await must_serve(plane, Change(vcl=vcl))
        for answer in (
            await http_client.ask(secure(port, "tea"), "tea"),
            *await over_http2(secure(port, "tea", alpn=["h2"]), [Request(method="GET", target="/", host="tea")]),
        ):
            reported = [answer.header(name) for name in ("client", "socket", "authority", "tls", "port")]
            assert reported == ["127.0.0.1", f"https-{port}", "tea", "true", str(port)]


async def test_client_identity_headers_from_clients_are_dropped(plane):
    """A PROXY header of the client's own is no part of TLS."""
    _, port = plane
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"PROXY TCP4 10.9.9.9 10.9.9.8 1 2\r\n")
    assert b"HTTP" not in await reader.read()
    writer.close()


async def test_client_address_reaches_the_origin_once(plane):
    _, port = plane
    request = Request(method="GET", target="/", host="tea", headers=(("X-Forwarded-For", "10.9.9.9"),))
    answer = await over_http1(secure(port), request.as_http1())
    seen = {name.lower(): value for name, value in answer.json["headers"]}
    assert seen["x-forwarded-for"] == "10.9.9.9, 127.0.0.1"


@pytest.mark.parametrize("size", [1000, 30000])
async def test_large_heads_pass_as_on_plain_sockets(plane, size):
    plane, port = plane
    request = Request(method="GET", target="/", host="tea", headers=(("X-Large", "x" * size),))
    for where in (secure(port), port_of(plane)):
        answer = await over_http1(where, request.as_http1())
        assert dict(answer.json["headers"])["x-large" if where != port_of(plane) else "X-Large"] == "x" * size
    (answer,) = await over_http2(secure(port, alpn=["h2"]), [request])
    assert answer.answered_by == "tea"


async def test_oversized_heads_are_rejected_and_many_header_lines_pass(plane):
    plane, port = plane
    large = Request(method="GET", target="/", host="tea", headers=(("X-Large", "x" * 100_000),))
    assert (await over_http1(secure(port), large.as_http1())).status in (400, 431)
    many = Request(method="GET", target="/", host="tea", headers=tuple((f"X-{n}", "1") for n in range(100)))
    for where in (secure(port), port_of(plane)):
        assert (await over_http1(where, many.as_http1())).answered_by == "tea"


async def test_large_response_heads_pass(plane):
    _, port = plane
    asked = json.dumps([f"X-{n}: {'x' * 3000}" for n in range(9)])
    request = Request(method="GET", target="/", host="tea", headers=(("Echo-Answer", asked),))
    answer = await over_http1(secure(port), request.as_http1())
    assert (answer.status, len(answer.header("x-8") or "")) == (200, 3000)


@pytest.mark.parametrize("alpn", ["http/1.1", "h2"])
async def test_bodies_of_10_megabytes_go_up_and_down(plane, alpn):
    """The origin sends back what it gets."""
    _, port = plane
    body = "0123456789abcdef" * (10 * MEGABYTE // 16)
    process = await asyncio.create_subprocess_exec(
        *("curl", "--silent", "--insecure", "--http2" if alpn == "h2" else "--http1.1", "--data-binary", "@-"),
        *("--connect-to", f"tea:443:127.0.0.1:{port}", "https://tea/", "--header", "Expect:"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    answered, _ = await process.communicate(body.encode())
    assert json.loads(answered)["body"] == body


async def test_without_certificates_no_haproxy_runs_and_plain_sockets_serve(origins):
    port = free_port()
    async with running(f"{FREE_PORTS};https-{port}=127.0.0.1:{port},https") as plane:
        change = Change(vcl=main_vcl(), routing=routing("tea"), slices=endpoints("tea", await origins.port("tea")))
        await must_serve(plane, change)
        assert (await ask(port_of(plane))).answered_by == "tea"
        assert plane.served.ready
        assert [event.ports for event in published(plane, events.PortsUnserved)] == [(port,)]
        assert not haproxies(plane)

        await must_serve(plane, Change(tls=tls(port, (pair("tea"), ["tea"]))))
        assert (await http_client.ask(secure(port), "tea")).answered_by == "tea"
        await must_serve(plane, Change(tls=Tls()))
        assert not haproxies(plane)
        assert (await ask(port_of(plane))).answered_by == "tea"
        assert [*(plane.settings.work_dir / "tls").glob("*.pem")] == []


async def test_gateway_without_tls_writes_no_tls_files():
    async with running() as plane:
        await must_serve(plane, Change(vcl=main_vcl(), routing=routing("tea"), tls=Tls()))
        assert not haproxies(plane)
        assert not (plane.settings.work_dir / "tls").exists()


async def test_haproxy_worker_is_unprivileged_and_its_files_are_private(plane):
    plane, _ = plane
    directory = plane.settings.work_dir / "tls"
    assert {path.stat().st_mode & 0o777 for path in directory.glob("*.pem")} == {0o600}
    assert directory.stat().st_mode & 0o777 == 0o700
    owners = {Path(f"/proc/{pid}").stat().st_uid for pid in haproxies(plane)}
    assert owners != {0}
    assert {path.stat().st_mode & 0o777 for path in plane.settings.work_dir.glob("https-*.sock")} == {0o600}


def haproxies(plane):
    return [pid for pid in working_in(plane.settings.work_dir) if program(pid) == "haproxy"]
