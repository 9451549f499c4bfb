"""What the reload socket tells of stored responses."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.http.scripted_origin import ScriptedOrigin, answer, once
from support.varnish.caching import NAME, outcome, policy
from support.varnish.ghost import ADMIN
from support.varnish.invalidation import HOST, ask, invalidate, stored, uri
from support.waiting import until
from varnish_gateway.ir import wire

pytestmark = pytest.mark.usefixtures("empty_cache", "empty_index")

WINDOWS = {"grace": 30_000, "stale_if_error": 600_000, "tag_headers": ("Surrogate-Key",)}


def get(ghost, path: str, **request) -> str:
    return outcome(ghost.get(path, host=HOST, **request))


def within(least: int, value: int, most: int) -> bool:
    return least <= value <= most


def test_stored_response_is_told_with_its_windows_tags_hits_and_size(ghost, serve):
    lines = ["Surrogate-Key: a b%c", "Age: 10", "Cache-Control: max-age=60"]
    with ScriptedOrigin(answer(body=b"12345", headers=lines)) as origin:
        serve(origin, cache=policy(**WINDOWS))
        get(ghost, "/page?b=1&a=2")
        assert get(ghost, "/page?a=2&b=1") == "hit"
        (found,) = stored(ghost, "/page?b=1&a=2")
    fixed = ("rule", "policy", "status", "fresh", "lifetime", "hits", "size", "tags", "moreTags", "reason", "vary")
    assert {name: found[name] for name in fixed} == {
        "rule": "default/r/0",
        "policy": NAME,
        "status": 200,
        "fresh": True,
        "lifetime": 60_000,
        "hits": 1,
        "size": 5,
        "tags": ["a", "b%25c"],
        "moreTags": 0,
        "reason": "max-age",
        "vary": "",
    }
    assert within(10_000, found["age"], 50_000)
    assert found["age"] + found["ttl"] == pytest.approx(60_000, abs=2)
    assert found["grace"] - found["ttl"] == pytest.approx(30_000, abs=2)
    assert found["staleIfError"] - found["ttl"] == pytest.approx(600_000, abs=2)
    assert found["kept"] >= found["staleIfError"]


def test_soft_invalidation_makes_it_stale_and_a_hard_one_removes_it(ghost, serve):
    with ScriptedOrigin(answer()) as origin:
        serve(origin, cache=policy(**WINDOWS))
        get(ghost, "/page")
        assert invalidate(ghost, uri("/page"), mode="soft") == [1]
        (found,) = stored(ghost, "/page")
        assert (found["fresh"], found["ttl"] <= 0, found["lifetime"]) == (False, True, 60_000)
        assert within(1, found["grace"], 30_000)
        assert invalidate(ghost, uri("/page")) == [1]
        assert stored(ghost, "/page") == []


def test_each_variant_and_key_is_told_and_no_other_url(ghost, serve):
    key = wire.CacheKey(headers=("x-kind",), query_parameters=wire.QueryParameters(exclude=("utm_*",)))
    with ScriptedOrigin(answer(headers=["Vary: X-A"])) as origin:
        serve(origin, cache=policy(cache_key=key))
        for kind in "ab":
            for variant in "cd":
                get(ghost, "/page?utm_x=1", headers=[("X-Kind", kind), ("X-A", variant)])
        get(ghost, "/other")
        assert [one["vary"] for one in stored(ghost, "/page?utm_y=2")] == ["X-A"] * 4
        assert len(stored(ghost, "/other")) == 1
        assert stored(ghost, "/page", "b.example") == []


def test_nothing_happens_to_what_is_told(ghost, serve):
    """Not to what is stored, nor to what is being fetched: a look is no invalidation."""
    arrived = threading.Event()
    with ScriptedOrigin(answer(), once(arrived, answer())) as origin, ThreadPoolExecutor() as clients:
        serve(origin, cache=policy())
        get(ghost, "/page")
        waiting = clients.submit(get, ghost, "/slow")
        until(lambda: len(origin.requests) == 2, "the origin is asked")
        assert (len(stored(ghost, "/page")), stored(ghost, "/slow")) == (1, [])
        arrived.set()
        waiting.result()
        assert (get(ghost, "/page"), get(ghost, "/slow")) == ("hit", "hit")


def test_restriction_to_routes_is_kept(ghost, serve):
    with ScriptedOrigin(answer()) as origin:
        serve(origin, cache=policy())
        get(ghost, "/page")
        assert len(stored(ghost, "/page", routes=["default/r"])) == 1
        assert stored(ghost, "/page", routes=["default/other"]) == []
        assert stored(ghost, "/page", routes=[]) == []


def test_variants_and_tags_are_bounded(ghost, serve):
    tags = " ".join(f"t{number}" for number in range(300))
    with ScriptedOrigin(answer(headers=[f"Surrogate-Key: {tags}"])) as origin:
        serve(origin, cache=policy(cache_key=wire.CacheKey(headers=("x-kind",)), **WINDOWS))
        for number in range(70):
            get(ghost, "/page", headers=[("X-Kind", str(number))])
        found = ask(ghost, json.dumps({"targets": [uri("/page")]}).encode(), page="inspect").json
    assert (len(found["variants"]), found["more"]) == (64, True)
    assert {(len(one["tags"]), one["moreTags"]) for one in found["variants"]} == {(64, 236)}


def test_failed_revalidation_keeps_the_age_of_what_is_told(ghost, serve):
    """What replaces an error is usable for longer, and no fresher than before."""
    lines = ["Cache-Control: max-age=1", "Age: 30"]
    with ScriptedOrigin(answer(headers=lines), answer(500)) as origin:
        serve(origin, cache=policy(stale_if_error=600_000))
        get(ghost, "/page")
        get(ghost, "/page")
        (found,) = stored(ghost, "/page")
    assert (found["fresh"], found["lifetime"], found["age"] >= 30_000) == (False, 1_000, True)
    assert found["ttl"] <= -29_000


@pytest.mark.parametrize("page", ["inspect", "check"])
def test_only_a_post_for_localhost_on_the_reload_socket_is_answered(ghost, serve, page):
    body = json.dumps({"targets": [uri("/page")]}).encode()
    with ScriptedOrigin(answer()) as origin:
        serve(origin)
        assert ask(ghost, body, page=page, host="rebound.example").status == 421
        assert ghost.get(f"/.varnish-ghost/{page}", socket=ADMIN, host="localhost").status == 405
        ghost.get(f"/.varnish-ghost/{page}", method="POST", host="localhost", body=body)
        assert len(origin.requests) == 1, "on other sockets it is a path of the user's"


@pytest.mark.parametrize(
    ("targets", "error"),
    [
        ([], "targets: is empty"),
        ([uri("/a"), uri("/b")], "targets: name one URI"),
        ([{"everything": True}], "targets: name one URI"),
        ([uri("a")], "targets[0].uri.target: "),
    ],
)
def test_other_questions_are_rejected(ghost, targets, error):
    found = ask(ghost, json.dumps({"targets": targets}).encode(), page="inspect")
    assert (found.status, found.json["error"].startswith(error)) == (400, True), found.json


def test_check_says_what_an_invalidation_would_and_invalidates_nothing(ghost, serve):
    with ScriptedOrigin(answer()) as origin:
        serve(origin, cache=policy())
        get(ghost, "/page")
        good, bad = {"targets": [{"everything": True}]}, {"targets": [{"everything": True}, {"tags": ["%"]}]}
        assert ask(ghost, json.dumps(good).encode(), page="check").json == {"objects": []}
        wrong = [ask(ghost, json.dumps(bad).encode(), page=page) for page in ("check", "invalidate")]
        assert [found.status for found in wrong] == [400, 400]
        assert wrong[0].json == wrong[1].json
        assert get(ghost, "/page") == "hit"
