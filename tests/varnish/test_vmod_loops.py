"""A request that keeps coming back to the gateway ends, and other routes don't notice (RFC 8586, CDN-Loop)."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from support.http.client import Answer
from support.http.scripted_origin import ScriptedOrigin, answer, late
from support.varnish.ghost import CACHE_EVERYTHING, Config, GhostHarness, backend, route, to
from varnish_gateway.ir import wire

ID = "web.shop.varnish-gateway"
REQUESTS = 12


@pytest.fixture(scope="module")
def ghost() -> Iterator[GhostHarness]:
    """Run varnishd with few threads: a request that comes back for ever takes all of them.

    Twelve that come back twice hold six workers each, at the same time. That is within a route's share of 400.
    """
    parameters = {"thread_pools": "1", "thread_pool_min": "20", "thread_pool_max": "400"}
    with GhostHarness(Config(), parameters=parameters, environment={"GHOST_CDN_ID": ID}) as running:
        yield running


def looping(ghost: GhostHarness, origin: ScriptedOrigin) -> Config:
    """Two routes: one to an origin, one to the gateway itself."""
    itself = wire.Endpoint(address="127.0.0.1", port=ghost.ports["http-80"])
    routes = [
        route("good", to(backend("origin")), hosts=["good.org"]),
        route("loop", to(backend("itself")), hosts=["loop.org"]),
    ]
    return Config(routes, {"origin": [origin.endpoint], "itself": [itself]})


def loops(ghost: GhostHarness) -> int:
    return ghost.counters()["routes"]["default/loop"].get("loops", 0)


@pytest.mark.parametrize("vcl", ["", CACHE_EVERYTHING], ids=["passed", "cached"])
def test_a_loop_ends_with_an_error_and_leaves_threads_to_other_routes(ghost, vcl):
    answers: list[Answer] = []
    with ScriptedOrigin(answer()) as origin:
        ghost.reload(looping(ghost, origin))
        ghost.load_vcl(vcl)
        before = loops(ghost)

        def loop(number: int) -> None:
            answers.append(ghost.get(f"/{number}", host="loop.org"))

        clients = [threading.Thread(target=loop, args=(number,)) for number in range(REQUESTS)]
        for client in clients:
            client.start()
        assert [ghost.get(f"/{n}", host="good.org").status for n in range(20)] == [200] * 20
        for client in clients:
            client.join()
        assert [one.status for one in answers] == [508] * REQUESTS
        assert "loop" in answers[0].json["reason"]
        assert loops(ghost) - before == REQUESTS
        ghost.load_vcl()


def test_a_filter_can_not_hide_earlier_passes(ghost):
    """A header that a request lists in Connection is one that varnishd leaves out."""
    itself = wire.Endpoint(address="127.0.0.1", port=ghost.ports["http-80"])
    hide = wire.Filters(request=wire.HeaderModifier(set=(wire.Header(name="Connection", value="CDN-Loop"),)))
    rule = to(backend("itself"), filters=hide, timeouts=wire.Timeouts(request=3_000))
    ghost.reload(Config([route("loop", rule)], {"itself": [itself]}))
    assert ghost.get().status == 508


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ([], 200),
        ([ID], 200),
        (["other.example", ID.upper() + '; via="a"'], 200),
        ([f"{ID}, {ID}"], 508),
        ([ID, f"x.example;a=1,{ID} ; b"], 508),
        (['other; quote="', ID, ID], 508),
        ([f"{ID}.example, my-{ID}, {ID}.example"], 200),
    ],
)
def test_one_earlier_pass_is_no_loop(ghost, sent, status):
    """A service behind the gateway may call another one through the gateway."""
    with ScriptedOrigin(answer()) as origin:
        ghost.reload(looping(ghost, origin))
        assert ghost.get(host="good.org", headers=[("CDN-Loop", value) for value in sent]).status == status


def test_backend_receives_what_the_client_sent_and_the_gateways_own_id(ghost):
    with ScriptedOrigin(answer()) as origin:
        ghost.reload(looping(ghost, origin))
        ghost.get(host="good.org", headers=[("CDN-Loop", 'a.example; t="1, 2"'), ("cdn-loop", "b")])
    lines = [line.partition(b": ")[2] for line in origin.requests[0].split(b"\r\n") if line.lower().startswith(b"cdn-")]
    assert b", ".join(lines).startswith(b'a.example; t="1, 2", b, ' + ID.encode() + b"; pass=")


@pytest.mark.parametrize("sent", [ID, f"{ID}; pass={'0' * 32}"])
def test_a_client_can_not_have_its_requests_fetched_one_by_one(ghost, sent):
    """Only a request that this gateway has sent does not wait for the fetch of the same object."""
    with ScriptedOrigin(late(1.0, answer(headers=["Cache-Control: max-age=60"]))) as origin:
        ghost.reload(looping(ghost, origin))
        ghost.load_vcl(CACHE_EVERYTHING)
        with ThreadPoolExecutor(5) as pool:
            ask = partial(ghost.get, f"/together/{len(sent)}", host="good.org", headers=[("CDN-Loop", sent)])
            assert [one.result().status for one in [pool.submit(ask) for _ in range(5)]] == [200] * 5
        ghost.load_vcl()
    assert len(origin.requests) == 1


def test_a_backend_that_user_vcl_chooses_receives_the_id_too(ghost):
    with ScriptedOrigin(answer()) as origin:
        ghost.reload(looping(ghost, origin))
        host, port = origin.endpoint.address, origin.endpoint.port
        ghost.load_vcl(
            f'backend mine {{ .host = "{host}"; .port = "{port}"; }} sub vcl_recv {{ set req.backend_hint = mine; }}'
        )
        ghost.get(host="loop.org")
        ghost.load_vcl()
    assert f"CDN-Loop: {ID}; pass=".encode() in origin.requests[0]


def test_a_retry_in_vcl_adds_the_id_once(ghost):
    with ScriptedOrigin(answer(500), answer()) as origin:
        ghost.reload(looping(ghost, origin))
        ghost.load_vcl("sub vcl_backend_response { if (beresp.status == 500) { return (retry); } }")
        assert ghost.get(host="good.org").status == 200
        ghost.load_vcl()
    assert [request.lower().count(b"cdn-loop") for request in origin.requests] == [1, 1]
