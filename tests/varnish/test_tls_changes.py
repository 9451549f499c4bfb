"""Certificates change while HAProxy serves, and whatever is refused leaves those that serve."""

import asyncio
import contextlib
import itertools
import os
import signal

import pytest

from loopback import free_port
from support.http import client as http_client
from support.http.load import under_load
from support.varnish.dataplane import ask, must_serve, port_of, published, until_published
from support.varnish.tls import Pair, both, certificate_of, finish, https, make_pair, pair, secure, tls
from varnish_gateway import errors
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.tls import events
from varnish_gateway.dataplane.tls.budget import ReloadBudget
from varnish_gateway.ir import Tls

TEA = {"tea": frozenset(["tea"])}


@pytest.fixture
async def serving(origins):
    async with https(origins) as (plane, port):
        yield plane, port


class Handshakes:
    """Opens one new connection after the other, as first-time clients do."""

    def __init__(self, port: int, name: str = "tea") -> None:
        self._where = secure(port, name)
        self.seen: list[bytes] = []
        self.failed: list[str] = []

    async def forever(self) -> None:
        while True:
            try:
                await self._once()
            except OSError as error:
                self.failed.append(repr(error))
                await asyncio.sleep(0.01)  # not a wait for anything: a gap is not to be hammered

    async def _once(self) -> None:
        reader, writer = await http_client.connect(self._where)
        try:
            self.seen.append(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
            writer.write(b"GET / HTTP/1.1\r\nHost: tea\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            if not answer.startswith(b"HTTP/1.1 200"):
                self.failed.append(repr(answer[:100]))
        finally:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def attended(port):
    """Clients that keep their connections and clients that open new ones; a failure of one fails the test."""
    newcomers = Handshakes(port)
    task = asyncio.create_task(newcomers.forever())
    try:
        async with under_load(secure(port), TEA, connections=3) as load:
            yield newcomers
    finally:
        await finish(task)
    assert (load.failed, load.wrong, newcomers.failed) == ([], [], [])
    assert load.answered > 10
    assert len(newcomers.seen) > 10


async def test_200_certificate_rotations_under_load_fail_no_request(serving):
    plane, port = serving
    pairs = [pair("tea", number) for number in range(5)]
    async with attended(port) as newcomers:
        for _, one in zip(range(200), itertools.cycle(pairs[1:] + pairs[:1]), strict=False):
            await must_serve(plane, Change(tls=tls(port, (one, ["tea"]))))
            await asyncio.sleep(0)
    assert await certificate_of(port, "tea") == pairs[0].der
    assert {one.der for one in pairs} == set(newcomers.seen)
    assert sum(event.replaced for event in published(plane, events.CertificatesChanged)) > 100
    assert not published(plane, events.HaproxyReloaded)


async def test_added_and_removed_certificates_need_no_reload(serving):
    plane, port = serving
    tea, coffee, wild = pair("tea"), pair("coffee"), pair("*.example.com")
    await must_serve(plane, Change(tls=tls(port, (tea, ["tea"]), (coffee, ["coffee"]), (wild, ["*.example.com"]))))
    assert await certificate_of(port, "coffee") == coffee.der
    assert await certificate_of(port, "a.example.com") == wild.der
    # The default becomes another one, a name moves, one goes.
    await must_serve(plane, Change(tls=tls(port, (coffee, ["coffee"]), (tea, ["tea", "milk"]))))
    assert await certificate_of(port, "nobody") == coffee.der
    assert await certificate_of(port, "milk") == tea.der
    assert await certificate_of(port, "a.example.com") == coffee.der
    assert not published(plane, events.HaproxyReloaded)
    await restarts_the_same(plane, port, {"coffee": coffee, "milk": tea, "a.example.com": coffee})


async def restarts_the_same(plane, port, expected):
    """Restart HAProxy: it serves what is on disk."""
    os.kill(plane.terminator.pid, signal.SIGKILL)
    await until_published(plane, events.HaproxyBack)
    for name, one in expected.items():
        assert await certificate_of(port, name) == one.der


async def test_port_and_authority_changes_reload_without_failed_requests(origins, monkeypatch):
    other = free_port()
    async with https(origins, more_ports=[other]) as (plane, port):
        monkeypatch.setattr(plane.terminator.service, "budget", ReloadBudget(0.0))
        plain = tls(port, (pair("tea"), ["tea"]))
        async with attended(port):
            for number in range(10):
                more = tls(other, (pair("tea", number % 2), ["tea"]), clients=f"authority {number % 2}")
                await must_serve(plane, Change(tls=both(plain, more)))
                await must_serve(plane, Change(tls=plain))
        assert len(published(plane, events.HaproxyReloaded)) == 20
        with pytest.raises(ConnectionRefusedError):
            await certificate_of(other, "tea")


def bad_certificates():
    tea, other = pair("tea"), pair("tea", 1)
    yield "a key of another certificate", tea.certificate + other.key, "key values mismatch"
    yield "no key", tea.certificate, "has 0 private keys"
    yield "two keys", tea.content + other.key, "has 2 private keys"
    yield "no certificate", tea.key, "has no certificate"
    yield "nothing", b"", "has no certificate"
    yield "a megabyte", tea.content + b"# " + b"x" * (1 << 20), "256000 are the most"
    yield "damaged", tea.content.replace(b"\nMII", b"\nAII", 1), "is rejected by OpenSSL"
    yield "a short key", make_pair("tea", kind="rsa1024").content, "key too small"


@pytest.mark.parametrize(("content", "reason"), [pytest.param(*bad[1:], id=bad[0]) for bad in bad_certificates()])
async def test_unusable_certificate_keeps_the_last_good(serving, content, reason):
    plane, port = serving
    coffee = pair("coffee")
    before = plane.served.tls
    outcome = await plane.apply(Change(tls=tls(port, (content, ["tea"]), (coffee, ["coffee"]))))
    (problem,) = outcome.problems
    assert isinstance(problem, errors.TlsRejected)
    assert str(problem).startswith(f"certificate of tea on port {port} ")
    assert reason in str(problem)
    assert plane.served.problems == (str(problem),)
    assert (plane.served.ready, plane.served.up_to_date, plane.served.tls) == (True, False, before)
    assert await certificate_of(port, "tea") == pair("tea").der
    assert await certificate_of(port, None) == pair("tea").der
    assert await certificate_of(port, "coffee") == coffee.der
    assert len(published(plane, events.TlsFailed)) == 1

    await must_serve(plane, Change(tls=tls(port, (pair("tea", 2), ["tea"]), (coffee, ["coffee"]))))
    assert await certificate_of(port, "tea") == pair("tea", 2).der
    assert plane.served.problems == ()


async def test_unusable_certificate_at_start_leaves_the_others_served(origins):
    port, other = free_port(), free_port()
    async with https(origins, more_ports=[port, other]) as (plane, first):
        good = tls(first, (pair("tea"), ["tea"]))
        half = tls(port, (b"nonsense", ["coffee"]), (pair("milk"), ["milk"]))
        outcome = await plane.apply(Change(tls=both(good, half, tls(other, (b"nonsense", ["*"])))))
        assert len(outcome.problems) == 2
        assert await certificate_of(first, "tea") == pair("tea").der
        assert await certificate_of(port, "coffee") == pair("milk").der
        with pytest.raises(ConnectionRefusedError):
            await certificate_of(other, "tea")
        assert plane.served.ready


async def test_text_outside_pem_blocks_is_not_served(serving):
    """The admin socket takes commands after an empty line."""
    plane, port = serving
    one = pair("tea", 3)
    hostile = Pair(one.certificate + b"\n\nshutdown frontend https-%d\n\n" % port, b"text\n\n\n" + one.key)
    await must_serve(plane, Change(tls=tls(port, (hostile, ["tea"]))))
    assert await certificate_of(port, "tea") == one.der
    assert not published(plane, events.HaproxyReloaded), "it came by the admin socket"


@pytest.mark.parametrize("name", ["tea coffee", "tea\ncoffee", "[verify", "!tea", ""])
async def test_invalid_names_are_not_configured(serving, name):
    plane, port = serving
    outcome = await plane.apply(Change(tls=tls(port, (pair("tea"), ["tea"]), (pair("coffee"), [name]))))
    assert "which is not a hostname" in str(outcome.problems[0])
    assert await certificate_of(port, "tea") == pair("tea").der


async def test_expired_certificate_is_served_with_a_warning(serving):
    plane, port = serving
    expired = make_pair("tea", days=-1)
    await must_serve(plane, Change(tls=tls(port, (expired, ["tea"]))))
    assert await certificate_of(port, "tea") == expired.der
    assert [(event.names, event.port) for event in published(plane, events.CertificateExpired)] == [("tea", port)]


async def test_chain_too_long_for_the_admin_socket_is_reloaded(serving):
    plane, port = serving
    one = pair("tea", 1)
    chain = one.certificate + b"".join(pair("coffee", number % 3).certificate for number in range(90)) + one.key
    assert len(chain) > 40960
    await must_serve(plane, Change(tls=tls(port, (chain, ["tea"]))))
    assert await certificate_of(port, "tea") == one.der
    assert len(published(plane, events.HaproxyReloaded)) == 1


def many_names(count, labels):
    """Return so many names, each with so many long labels."""
    return [".".join([f"name-{number}", *["a" * 60] * labels, "ex"]) for number in range(count)]


@pytest.mark.parametrize(("count", "labels"), [(2048, 0), (5000, 0), (300, 3)])
@pytest.mark.parametrize("by", ["a start", "run time"])
async def test_certificate_with_more_names_than_fit_a_line_is_served(origins, count, labels, by):
    names = many_names(count, labels)
    certificates = [(pair("tea"), ["tea"]), (pair("milk"), names)]
    begin = certificates if by == "a start" else certificates[:1]
    async with https(origins, *begin) as (plane, port):
        if by == "run time":
            await must_serve(plane, Change(tls=tls(port, *certificates)))
        for name in (names[0], names[-1]):
            assert await certificate_of(port, name) == pair("milk").der
        renewed = tls(port, (pair("tea", 1), ["tea"]), (pair("milk", 1), [*names[1:], "new.ex"]))
        await must_serve(plane, Change(tls=renewed))
        for name in (names[1], names[-1], "new.ex"):
            assert await certificate_of(port, name) == pair("milk", 1).der
        for name in ("tea", names[0]):
            assert await certificate_of(port, name) == pair("tea", 1).der
        assert published(plane, events.HaproxyReloaded) == []
        await restarts_the_same(plane, port, {names[-1]: pair("milk", 1), "tea": pair("tea", 1)})


async def test_unchanged_input_causes_no_reload(serving):
    plane, port = serving
    before = [*plane.bus.history]
    await must_serve(plane, Change(tls=tls(port, (pair("tea"), ["tea"]))))
    assert [*plane.bus.history] == before


async def test_rejected_admin_command_falls_back_to_a_reload(serving):
    plane, port = serving
    # Somebody else's transaction stands in the way.
    await plane.terminator.service.admin.ask(
        f"set ssl cert tls/{port}.default.pem", pair("milk").content.replace(b"\n\n", b"\n")
    )
    await must_serve(plane, Change(tls=tls(port, (pair("tea", 1), ["tea"]), (pair("coffee"), ["coffee"]))))
    assert await certificate_of(port, "tea") == pair("tea", 1).der
    assert await certificate_of(port, "coffee") == pair("coffee").der


async def test_removed_tls_closes_the_port(serving):
    plane, port = serving
    await must_serve(plane, Change(tls=Tls()))
    with pytest.raises(ConnectionRefusedError):
        await certificate_of(port, "tea")
    assert (await ask(port_of(plane))).answered_by == "tea"
    assert plane.served.ready
