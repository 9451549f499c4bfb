"""Ports that open and close while varnishd runs: the TLS terminator serves them, and the cache stays."""

import asyncio
import os
import signal
import socket

import msgspec
import pytest

from loopback import free_port
from support.http import client as http_client
from support.http.client import Request, over_http1, over_http2
from support.http.load import under_load
from support.varnish.dataplane import (
    FREE_PORTS,
    endpoints,
    must_serve,
    port_of,
    published,
    running,
    until_published,
    user_vcl,
)
from support.varnish.tls import begin_request, both, certificate_of, end_request, pair, secure, tls
from support.waiting import until_async
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.tls import haproxy as haproxy_program
from varnish_gateway.dataplane.tls import serving
from varnish_gateway.dataplane.tls.budget import ReloadBudget
from varnish_gateway.dataplane.tls.events import HaproxyExited, HaproxyReloaded
from varnish_gateway.emit.tls import tls_hash
from varnish_gateway.ir import Tls, wire

CACHE = """
import std;
sub vcl_recv { if (req.url == "/cached") { return (hash); } }
sub vcl_backend_response { set beresp.ttl = 1h; }
sub vcl_deliver {
    set resp.http.Hits = obj.hits;
    set resp.http.Client = client.ip;
    set resp.http.Listener = req.http.X-Gateway-Listener;
    set resp.http.Port = std.port(server.ip);
}
"""


def listener(port, scheme="http"):
    return wire.Listener(name=f"{scheme}-{port}", socket=f"{scheme}-{port}", port=port, scheme=scheme)


def routing(*listeners):
    """Return routing of the host tea on all listeners: to the origin tea, and /moved to another host."""
    moved = wire.Rule(
        matches=(wire.Match(path=wire.PathMatch(type="prefix", value="/moved")),),
        redirect=wire.Redirect(hostname="milk"),
    )
    attachments = tuple(wire.Attachment(listener=one.name, hostnames=("tea",)) for one in listeners)
    rules = (moved, wire.Rule(backends=(wire.Backend(service="n/tea", port=80),)))
    routes = (wire.Route(namespace="n", name="tea", attachments=attachments, rules=rules),)
    return {0: msgspec.json.encode(wire.Routing(version=2, listeners=listeners, routes=routes))}


class Gateway:
    """A data plane with one plain port of its start, and ports that come and go."""

    def __init__(self, plane, own, origin):
        self.plane, self.own, self._origin = plane, own, origin

    def change(self, *later, **more):
        """Give each of the later ports a plain listener, or one of the scheme that stands beside it."""
        pairs = [one if isinstance(one, tuple) else (one, "http") for one in later]
        entries = "".join(f";{scheme}-{port}=127.0.0.1:{port},{scheme}" for port, scheme in pairs)
        listeners = [listener(self.own), *(listener(port, scheme) for port, scheme in pairs)]
        return Change(routing=routing(*listeners), sockets=parse_listen(start(self.own) + entries), **more)

    async def begin(self):
        await must_serve(
            self.plane,
            msgspec.structs.replace(
                self.change(), vcl=user_vcl(CACHE), slices=endpoints("tea", self._origin), tls=Tls()
            ),
        )

    async def apply(self, *later, **more):
        return await self.plane.apply(self.change(*later, **more))

    async def serve(self, *later, **more):
        outcome = await self.apply(*later, **more)
        assert (outcome.problems, outcome.closed) == ((), {})

    @property
    def restarts(self):
        return len(published(self.plane, events.Restarting))


def start(own):
    return f"ghost-reload=127.0.0.1:0,http;http-{own}=127.0.0.1:{own},http"


@pytest.fixture
async def gateway(origins):
    own = free_port()
    async with running(start(own), drain_seconds=0) as plane:
        made = Gateway(plane, own, await origins.port("tea"))
        await made.begin()
        yield made


async def ask(port, target="/", **more):
    return await over_http1(port, Request(method="GET", target=target, host="tea", **more).as_http1())


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_a_port_opens_and_closes_and_the_cache_stays(gateway):
    port, before = free_port(), gateway.plane.supervisor.pid
    assert (await ask(gateway.own, "/cached")).header("hits") == "0"
    await gateway.serve(port)
    answer = await ask(port, "/cached")
    assert (answer.header("hits"), answer.header("listener")) == ("1", f"http-{port}")
    assert f"http-{port}=127.0.0.1:{port}" in gateway.plane.served.sockets
    await gateway.serve()
    assert not is_open(port)
    assert (await ask(gateway.own, "/cached")).header("hits") == "2"
    assert (gateway.plane.supervisor.pid, gateway.restarts) == (before, 0)
    assert not [one for one in gateway.plane.served.sockets if one.startswith(f"http-{port}=")]


async def test_flips_lose_no_request_on_other_ports(gateway, monkeypatch):
    monkeypatch.setattr(gateway.plane.terminator.service, "budget", ReloadBudget(0.0))
    stays, flips = free_port(), free_port()
    await gateway.serve(stays)
    allowed = {"tea": frozenset(["tea"])}
    async with under_load(gateway.own, allowed, 4) as own, under_load(stays, allowed, 4) as later:
        for _ in range(5):
            await gateway.serve(stays, flips)
            assert (await ask(flips)).answered_by == "tea"
            await gateway.serve(stays)
    assert (own.failed, own.wrong, later.failed, later.wrong) == ([], [], [], [])
    assert min(own.answered, later.answered) > 50
    assert gateway.restarts == 0


async def test_origin_and_user_vcl_see_the_client_and_its_port(gateway):
    port = free_port()
    await gateway.serve(port)
    for place in (gateway.own, port):
        answer = await ask(place, headers=[("X-Forwarded-For", "192.0.2.9"), ("X-Gateway-Listener", "forged")])
        reported = [answer.header(name) for name in ("client", "listener", "port")]
        assert reported == ["127.0.0.1", f"http-{place}", str(place)]
        received = sent_to_origin(answer)
        assert (received["x-forwarded-for"], received["x-forwarded-proto"]) == ("192.0.2.9, 127.0.0.1", "http")


def sent_to_origin(answer):
    return {name.lower(): value for name, value in answer.json["headers"]}


async def test_redirects_name_the_port_and_the_scheme_of_the_listener(gateway):
    plain, encrypted = free_port(), free_port()
    await gateway.serve(plain, (encrypted, "https"), tls=tls(encrypted, (pair("tea"), ["tea"])))
    assert (await ask(plain, "/moved/x")).header("location") == f"http://milk:{plain}/moved/x"
    answer = await http_client.ask(secure(encrypted), "tea", "/moved/x")
    assert answer.header("location") == f"https://milk:{encrypted}/moved/x"


async def test_http2_works_on_a_plain_port_that_opened_later(gateway):
    port = free_port()
    await gateway.serve(port)
    (answer,) = await over_http2(port, [Request(method="GET", target="/", host="tea")])
    assert (answer.answered_by, answer.header("listener")) == ("tea", f"http-{port}")


async def test_a_later_port_changes_between_http_and_https_without_a_restart(gateway):
    port = free_port()
    certificates = tls(port, (pair("tea"), ["tea"]))
    await gateway.serve(port)
    await gateway.serve((port, "https"), tls=certificates)
    assert await certificate_of(port, "tea") == pair("tea").der
    answer = await http_client.ask(secure(port), "tea")
    assert (answer.answered_by, answer.header("listener")) == ("tea", f"https-{port}")
    assert sent_to_origin(answer)["x-forwarded-proto"] == "https"
    await gateway.serve(port, tls=Tls())
    assert (await ask(port)).answered_by == "tea"
    assert gateway.restarts == 0


async def test_a_port_of_varnishd_that_becomes_https_restarts_it_once(gateway):
    own = gateway.own
    other = free_port()
    certificates = tls(own, (pair("tea"), ["tea"]))

    def flipped(scheme):
        entries = f"ghost-reload=127.0.0.1:0,http;{scheme}-{own}=127.0.0.1:{own},{scheme}"
        return Change(
            routing=routing(listener(own, scheme)),
            sockets=parse_listen(f"{entries};http-{other}=127.0.0.1:{other},http"),
            tls=certificates if scheme == "https" else Tls(),
        )

    for _ in range(2):
        await must_serve(gateway.plane, flipped("https"))
        assert (await http_client.ask(secure(own), "tea")).answered_by == "tea"
        await must_serve(gateway.plane, flipped("http"))
        assert (await ask(own)).answered_by == "tea"
    assert gateway.restarts == 1


async def test_varnishd_keeps_a_port_of_its_start_and_says_so(gateway):
    later = free_port()
    plane, own = gateway.plane, gateway.own
    sockets = parse_listen(f"ghost-reload=127.0.0.1:0,http;http-{later}=127.0.0.1:{later},http")
    await must_serve(plane, Change(routing=routing(listener(later)), sockets=sockets))
    assert ((await ask(own)).status, (await ask(later)).answered_by) == (404, "tea")
    assert [one for one in plane.served.warnings if f"keeps port {own} open without a listener" in one]
    assert gateway.restarts == 0
    await must_serve(plane, Change(needed_ports=frozenset({own})))
    assert not is_open(own)
    assert gateway.restarts == 1
    assert plane.served.warnings == plane.supervisor.warnings
    await until_async(lambda: answers(later), "the later port answers")


async def answers(port):
    return (await http_client.ask(port, "tea")).status == 200


async def test_a_port_of_another_process_is_a_problem_of_that_port_alone(gateway):
    plane, fine, last = gateway.plane, free_port(), free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        outcome = await gateway.apply(port, fine)
        assert outcome.serves
        assert [*outcome.closed] == [f"http-{port}"]
        assert f"Address already in use by process {os.getpid()}" in outcome.closed[f"http-{port}"]
        assert plane.served.closed == outcome.closed
        assert (plane.served.ready, plane.served.up_to_date, plane.served.problems) == (True, True, ())
        assert (await ask(fine)).answered_by == "tea"
        outcome = await gateway.apply(port, fine, last)
        assert [*outcome.closed] == [f"http-{port}"]
        assert (await ask(last)).answered_by == "tea"
        assert len(published(plane, events.PortsChanged)) == 1, "one log line"
        assert published(plane, events.Fault) == []
    await until_async(lambda: not plane.served.closed, "the port is open")
    assert (await ask(port)).answered_by == "tea"
    assert [event.sentence for event in published(plane, events.PortsChanged)][1:] == ["all ports are open"]


async def test_the_only_later_port_is_taken_and_the_gateway_stays_ready(gateway):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert [*(await gateway.apply(port)).closed] == [f"http-{port}"]
        assert gateway.plane.served.ready
        assert gateway.plane.terminator.pid is None


async def test_later_ports_come_back_after_a_death_of_the_terminator(gateway):
    port = free_port()
    await gateway.serve(port)
    os.kill(gateway.plane.terminator.pid, signal.SIGKILL)
    await until_published(gateway.plane, HaproxyExited)
    await until_async(lambda: answers(port), "the later port answers")


async def test_later_ports_come_back_after_a_death_of_varnishd(gateway):
    port = free_port()
    await gateway.serve(port)
    os.kill(gateway.plane.supervisor.pid, signal.SIGKILL)
    await until_published(gateway.plane, events.VarnishdExited)
    await until_async(lambda: answers(port), "the later port answers")
    assert (await ask(gateway.own)).answered_by == "tea"


async def test_without_the_terminators_program_varnishd_restarts_for_a_port(monkeypatch, tmp_path, origins):
    monkeypatch.setattr(haproxy_program, "PROGRAM", str(tmp_path / "haproxy"))
    own, port = free_port(), free_port()
    async with running(start(own)) as plane:
        gateway = Gateway(plane, own, await origins.port("tea"))
        await gateway.begin()
        await gateway.serve(port)
        assert (await ask(port)).answered_by == "tea"
        assert gateway.restarts == 1


async def test_many_flips_wait_so_that_connections_outlive_them(gateway):
    plane, port, encrypted = gateway.plane, free_port(), free_port()
    secured = (encrypted, "https")
    certificates = tls(encrypted, (pair("tea"), ["tea"]))
    await gateway.serve(secured, tls=certificates)
    connections = []
    for number in range(3):
        connections.append(await begin_request(secure(encrypted)))
        await gateway.serve(secured, *([] if number % 2 else [port]))
    reloads = len(published(plane, HaproxyReloaded))
    assert reloads == 3

    closed = (await gateway.apply(secured)).closed
    assert closed == {}, "a port that only closes is no problem"
    assert is_open(port)
    assert (await ask(port)).status == 404, "it has no listener any more"
    another = free_port()
    closed = (await gateway.apply(secured, another)).closed
    assert [*closed] == [f"http-{another}"]
    assert "it opens at 20" in closed[f"http-{another}"]
    assert (plane.served.ready, plane.served.problems) == (True, ())
    assert len(published(plane, HaproxyReloaded)) == reloads

    await must_serve(plane, Change(tls=tls(encrypted, (pair("tea", 1), ["tea"]))))
    assert await certificate_of(encrypted, "tea") == pair("tea", 1).der, "certificates don't wait"
    for request in connections:
        assert (await end_request(*request)).startswith(b"HTTP/1.1 200")

    validated = tls(encrypted, (pair("tea", 1), ["tea"]), clients="friends", insecure=True)
    await gateway.serve(secured, another, tls=validated)
    assert (await ask(another)).answered_by == "tea", "the begin of validation doesn't wait, and takes ports along"

    others = tls(encrypted, (pair("tea", 1), ["tea"]), clients="strangers", insecure=True)
    reloads = len(published(plane, HaproxyReloaded))
    await must_serve(plane, Change(tls=others))
    assert [*plane.served.deferred] == [f"https-{encrypted}"], "authorities may be another user's"
    assert (plane.served.ready, plane.served.up_to_date, plane.served.problems) == (True, True, ())
    assert plane.served.tls == tls_hash(others), "no Gateway waits for it"
    assert len(published(plane, HaproxyReloaded)) == reloads
    assert "serve at 20" in published(plane, events.PortsChanged)[-1].sentence


async def test_a_large_certificate_that_waits_is_a_problem_of_its_port_alone(gateway, monkeypatch):
    plane, port = gateway.plane, free_port()
    await gateway.serve((port, "https"), tls=tls(port, (pair("tea"), ["tea"]), (pair("milk"), ["milk"])))
    monkeypatch.setattr(serving, "MOST_PAYLOAD", len(pair("tea").content) + 1000)
    monkeypatch.setattr(plane.terminator.service, "budget", OneWait())
    large = pair("tea", 1).content + b"\n" + pair("tea", 1).certificate * 3
    rotated = tls(port, (large, ["tea"]), (pair("milk", 1), ["milk"]))
    await must_serve(plane, Change(tls=rotated))
    assert [*plane.served.deferred] == [f"https-{port}"]
    assert await certificate_of(port, "milk") == pair("milk", 1).der, "small ones of the same port don't wait"
    assert await certificate_of(port, "tea") == pair("tea").der
    assert (plane.served.up_to_date, plane.served.tls) == (True, tls_hash(rotated))
    await until_async(lambda: not plane.served.deferred, "the large one serves")
    assert await certificate_of(port, "tea") == pair("tea", 1).der


class OneWait:
    """Stands for a budget: the first reload waits."""

    def __init__(self):
        self._waits = [0.5]

    def wait(self, _now):
        return self._waits.pop() if self._waits else 0.0

    def spend(self, _now): ...


async def test_a_port_that_waited_opens_when_its_time_comes(gateway, monkeypatch):
    first, second = free_port(), free_port()
    await gateway.serve(first)
    monkeypatch.setattr(gateway.plane.terminator.service, "budget", OneWait())
    assert [*(await gateway.apply(first, second)).closed] == [f"http-{second}"]
    await until_async(lambda: not gateway.plane.served.closed, "the port is open")
    assert (await ask(second)).answered_by == "tea"


async def test_requests_finish_when_the_last_later_port_closes(gateway):
    port = free_port()
    await gateway.serve(port)
    request = await begin_request(port)
    await until_async(lambda: connected(gateway, port), "the request has begun")
    closing = asyncio.create_task(gateway.serve())
    await until_async(lambda: not is_open(port), "the port is closed")
    answer = await end_request(*request)
    assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 404"))
    await closing


async def connected(gateway, port):
    rows = await gateway.plane.terminator.service.admin.frontends()
    return any(row["pxname"] == f"http-{port}" and row["req_tot"] != "0" for row in rows)


async def test_drain_waits_for_clients_of_later_ports(gateway):
    port = free_port()
    await gateway.serve(port)
    request = await begin_request(port)
    await until_async(lambda: connected(gateway, port), "the request has begun")
    draining = asyncio.create_task(gateway.plane.drain(20))
    await until_async(lambda: not is_open(port), "the port accepts no client any more")
    assert (await end_request(*request)).startswith(b"HTTP/1.1 200")
    await draining


async def test_two_ports_with_certificates_keep_their_own_sockets(origins):
    """What is there at the start has sockets with names, as user VCL knows them."""
    first, second = free_port(), free_port()
    async with running(f"{FREE_PORTS};https-{first}=127.0.0.1:{first},https") as plane:
        vcl = user_vcl("sub vcl_deliver { set resp.http.Socket = local.socket; }")
        sockets = parse_listen(
            f"{FREE_PORTS};https-{first}=127.0.0.1:{first},https;https-{second}=127.0.0.1:{second},https"
        )
        certificates = both(*(tls(port, (pair("tea"), ["tea"])) for port in (first, second)))
        any_socket = wire.Listener(name="any", socket="*")
        await must_serve(
            plane,
            Change(
                vcl=vcl,
                routing=routing(any_socket),
                slices=endpoints("tea", await origins.port("tea")),
                sockets=sockets,
                tls=certificates,
            ),
        )
        names = [(await http_client.ask(secure(port), "tea")).header("socket") for port in (first, second)]
        assert names == [f"https-{first}", "https-later"]
        assert port_of(plane) > 0
