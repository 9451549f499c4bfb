"""Clients have to show a certificate, and no resumed session gets them around it."""

import asyncio
import contextlib
import ssl
import subprocess
import sys

import pytest

from loopback import free_port
from support.http import client as http_client
from support.varnish.dataplane import must_serve, user_vcl
from support.varnish.tls import authority, both, certificate_of, client_pair, https, pair, secure, tls
from support.waiting import until
from varnish_gateway.dataplane.change import Change
from varnish_gateway.emit.haproxy import Bind, Clients, Machine, config, crt_list, default_slot

TEA = (pair("tea"), ["tea"])
SHOWS = user_vcl(
    """
import proxy;
sub vcl_deliver {
    set resp.http.Client = proxy.client_cert_cn();
    set resp.http.Verified = proxy.ssl_verify_result();
    set resp.http.Shown = proxy.client_has_cert_conn();
}"""
)


async def answered_by(port, **client):
    """Return who answers; a handshake that fails may show only when something is read."""
    try:
        return (await http_client.ask(secure(port, "tea", **client), "tea")).answered_by
    except ssl.SSLError:
        return 0


async def test_only_clients_with_a_certificate_of_the_authority_connect(origins):
    async with https(origins, TEA, clients="friends") as (plane, port):
        assert await answered_by(port, client=client_pair("friends")) == "tea"
        assert await answered_by(port) == 0
        assert await answered_by(port, client=client_pair("strangers")) == 0

        # The authority changes: who came in before does not any more.
        await must_serve(plane, Change(tls=tls(port, TEA, clients="strangers")))
        assert await answered_by(port, client=client_pair("strangers")) == "tea"
        assert await answered_by(port, client=client_pair("friends")) == 0
        await must_serve(plane, Change(tls=tls(port, TEA)))
        assert await answered_by(port) == "tea"


async def test_certificates_rotate_on_a_port_with_validation(origins):
    """Authorities change by a reload, certificates without one: both at run time crash HAProxy 2.6."""
    async with https(origins, TEA, clients="friends") as (plane, port):
        for number in range(6):
            one, friends = pair("tea", number), ["friends", "strangers"][number // 2 % 2]
            await must_serve(plane, Change(tls=tls(port, (one, ["tea"]), clients=friends)))
            assert await answered_by(port, client=client_pair(friends)) == "tea"
            assert await certificate_of(port, "tea", client=client_pair(friends)) == one.der


async def test_insecure_fallback_accepts_all_clients_and_reports_their_identity(origins):
    async with https(origins, TEA, clients="friends", insecure=True) as (plane, port):
        await must_serve(plane, Change(vcl=SHOWS))
        reported = []
        for client in (client_pair("friends"), client_pair("strangers"), None):
            answer = await http_client.ask(secure(port, "tea", client=client), "tea")
            reported.append((answer.answered_by, answer.header("shown"), answer.header("verified") == "0"))
        assert reported == [("tea", "true", True), ("tea", "true", False), ("tea", "false", True)]


async def test_unusable_authorities_leave_the_port_unchanged(origins):
    other = free_port()
    async with https(origins, TEA, clients="friends", more_ports=[other]) as (plane, port):
        good = tls(port, TEA, clients="friends")
        bad = tls(port, (pair("tea", 1), ["tea"]), clients="friends")
        name = bad.ports[0].clients.file
        closed = tls(other, TEA, clients="friends")
        desired = both(bad, closed)
        desired.files[name] = b"nonsense"
        outcome = await plane.apply(Change(tls=desired))
        assert [str(problem) for problem in outcome.problems] == [
            f"authorities of clients on port {each}: has no certificate in PEM" for each in sorted((port, other))
        ]
        assert await answered_by(port, client=client_pair("friends")) == "tea"
        assert await answered_by(port) == 0
        with pytest.raises(ConnectionRefusedError):
            await certificate_of(other, "tea")
        await must_serve(plane, Change(tls=both(good, closed)))
        assert await answered_by(other, client=client_pair("friends")) == "tea"


# -- sessions that are taken up again -------------------------------------------------------

RESUME = """
import socket, ssl, sys
first, second, version, tickets = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] == "True"
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.maximum_version = ssl.TLSVersion[version]
if not tickets:
    context.options |= ssl.OP_NO_TICKET
session = None
for port in (first, first, second):
    try:
        plain = socket.create_connection(("127.0.0.1", port))
        with context.wrap_socket(plain, server_hostname="tea", session=session) as s:
            s.sendall(b"GET / HTTP/1.1\\r\\nHost: tea\\r\\nConnection: close\\r\\n\\r\\n")
            answer = s.recv(100)
            print(port == second, s.session_reused, answer[9:12].decode() or "closed")
            session = s.session
    except OSError as error:
        print(port == second, None, "closed")
"""


def resumed(open_port, closed_port, version, *, tickets=False):
    """Resume a session of one port on another; return what the second one answered."""
    argv = [sys.executable, "-c", RESUME, str(open_port), str(closed_port), version, str(tickets)]
    output = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()
    return output[-1]


@pytest.mark.parametrize("tickets", [False, True])
@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
async def test_a_session_of_another_port_does_not_skip_validation(origins, version, tickets):
    closed = free_port()
    async with https(origins, TEA, more_ports=[closed]) as (plane, port):
        await must_serve(plane, Change(tls=both(tls(port, TEA), tls(closed, TEA, clients="friends"))))
        output = await asyncio.to_thread(resumed, port, closed, version, tickets=tickets)
        assert output == "True None closed"


@contextlib.contextmanager
def bare_haproxy(workdir, *, ours):
    """Run HAProxy alone with two ports, of which one validates; with our settings, or without those on sessions."""
    (workdir / "tls").mkdir()
    ports = free_port(), free_port()
    for port in ports:
        (workdir / f"tls/{port}.default.pem").write_bytes(pair("tea").content)
        (workdir / f"tls/{port}.list").write_text(crt_list([default_slot(port)]))
    (workdir / "tls/ca.pem").write_bytes(authority("friends").certificate)
    binds = [Bind(ports[0], (f"ipv4@127.0.0.1:{ports[0]}",), "none.sock")]
    binds += [Bind(ports[1], (f"ipv4@127.0.0.1:{ports[1]}",), "none.sock", Clients("ca.pem"))]
    text = config(binds, Machine(100, 1), "admin.sock")
    if not ours:
        text = text.replace("  tune.ssl.cachesize 0\n", "").replace(" no-tls-tickets", "")
    (workdir / "tls/haproxy.cfg").write_text(text)
    process = subprocess.Popen(["haproxy", "-f", "tls/haproxy.cfg"], cwd=workdir, stderr=subprocess.DEVNULL)
    try:
        until((workdir / "tls/admin.sock").exists, "HAProxy runs")
        yield ports
    finally:
        process.kill()
        process.wait()


def test_session_resumption_across_ports_skips_validation_with_default_settings(workdir):
    """See HAProxy's defaults let a session of the open port in at the other one (503: there is no varnishd)."""
    with bare_haproxy(workdir, ours=False) as ports:
        assert resumed(*ports, "TLSv1_2") == "True True 503"


def test_session_resumption_across_ports_is_validated_with_our_settings(workdir):
    with bare_haproxy(workdir, ours=True) as ports:
        assert resumed(*ports, "TLSv1_2") == "True None closed"
        assert resumed(*ports, "TLSv1_3") == "True None closed"
