"""One client never gets, and never destroys, what the cache may keep from it or has for others."""

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.http.scripted_origin import ScriptedOrigin, answer, late
from support.varnish.caching import outcome, policy, reason
from support.varnish.ghost import Config, backend, route, to
from support.waiting import until
from varnish_gateway.ir import wire

ALICE, BOB, CAROL = (("Cookie", f"sid={name}") for name in ("alice", "bob", "carol"))
EXPLICIT = {"stale_if_error": 300_000, "grace": 0}


@pytest.fixture(autouse=True)
def empty(ghost) -> None:
    ghost.load_vcl()
    ghost.admin("ban", "req.url ~ .")


def page(name: str, *lines: str, status: int = 200):
    return answer(status, name.encode(), headers=lines)


def bodies(ghost, *requests) -> list[bytes]:
    return [ghost.get("/account", headers=headers).body for headers in requests]


# -- a lifetime of zero ----------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [("Cache-Control: max-age=0", 'ETag: "a"'), ("Expires: 0", 'ETag: "a"'), ("Cache-Control: max-age=x", 'ETag: "a"')],
)
@pytest.mark.parametrize("forced", [False, True])
def test_page_of_a_user_that_is_stale_at_once_is_shown_to_no_one_else(ghost, serve, lines, forced):
    with ScriptedOrigin(page("alice", *lines), page("bob", *lines)) as origin:
        serve(origin, cache=policy(forced=forced, **EXPLICIT))
        assert bodies(ghost, [ALICE], [BOB, ("Cache-Control", "max-stale")]) == [b"alice", b"bob"]
        assert len(origin.requests) == 2


@pytest.mark.parametrize("asked", [[("Cache-Control", "max-stale")], []])
def test_lifetime_of_zero_of_the_policy_stores_nothing(ghost, serve, asked):
    with ScriptedOrigin(page("alice", 'ETag: "a"'), page("error", status=500)) as origin:
        serve(origin, cache=policy(ttl=0, stale_if_error=300_000))
        assert bodies(ghost, [], asked) == [b"alice", b"error"]


@pytest.mark.parametrize("control", ["max-age=0, must-revalidate", "no-cache", "max-age=0"])
def test_requests_that_waited_do_not_share_a_response_that_is_validated_each_time(ghost, serve, control):
    lines = (f"Cache-Control: {control}", 'ETag: "a"')
    steps = [late(0.5, page(str(number), *lines)) for number in range(8)]
    with ScriptedOrigin(*steps) as origin, ThreadPoolExecutor(8) as pool:
        serve(origin, cache=policy())
        found = list(pool.map(lambda _: ghost.get("/account").body, range(8)))
        assert len(set(found)) == 8
        assert len(origin.requests) == 8


def test_page_that_includes_slowly_validates_a_later_fragment(ghost, serve):
    """The time of a page's request doesn't make a response fresh that another client fetched since."""
    fragment = ("Cache-Control: no-cache", 'ETag: "a"', "Content-Type: text/plain")
    text = b'<esi:include src="/slow"/><esi:include src="/fragment"/>'
    pages = {
        b"/page": answer(200, text, headers=("Content-Type: text/html", "Cache-Control: max-age=60")),
        b"/slow": late(1.0, page("slow ", "Cache-Control: no-store")),
    }
    fragments = iter([page("bob", *fragment), page("alice", *fragment)])
    with RoutedOrigin(pages, fragments) as origin, ThreadPoolExecutor(1) as pool:
        serve(origin, cache=policy(esi=True))
        whole = pool.submit(ghost.get, "/page")
        until(lambda: any(b"GET /slow" in request for request in origin.requests), "the first include is under way")
        assert ghost.get("/fragment").body == b"bob"
        assert whole.result().body == b"slow alice"


class RoutedOrigin(ScriptedOrigin):
    """Answers by path, and other paths by a list."""

    def __init__(self, pages, others) -> None:
        super().__init__()
        self._pages, self._others = pages, others

    def _step(self, request: bytes, _: int):
        with self._lock:
            self.requests.append(request)
        return self._pages.get(request.split()[1]) or next(self._others)


# -- cookies ---------------------------------------------------------------------------


def test_forced_lifetime_does_not_share_what_cookies_got(ghost, serve):
    with ScriptedOrigin(page("alice"), page("bob"), page("anonymous")) as origin:
        serve(origin, cache=policy(forced=True))
        assert bodies(ghost, [ALICE], [BOB], [], [CAROL]) == [b"alice", b"bob", b"anonymous", b"anonymous"]


def test_forced_lifetime_counts_where_the_origin_states_one_as_well(ghost, serve):
    with ScriptedOrigin(page("all", "Cache-Control: max-age=5")) as origin:
        serve(origin, cache=policy(forced=True))
        assert bodies(ghost, [ALICE], [BOB]) == [b"all", b"all"]


# -- a fetch that lost its policy ------------------------------------------------------


def test_fetch_whose_policy_a_rollback_lost_is_not_stored(ghost, serve):
    ghost.load_vcl("import std; sub vcl_backend_fetch { std.rollback(bereq); }")
    with ScriptedOrigin(page("alice"), page("bob")) as origin:
        serve(origin, cache=policy(request_cookies="remove"))
        assert bodies(ghost, [ALICE], [BOB]) == [b"alice", b"bob"]
        assert not [request for request in origin.requests if b"x-ghost" in request.lower()]


RETRY = "sub vcl_backend_response { if (beresp.http.X-Retry && bereq.retries == 0) { return (retry); } }"


def test_retry_finds_the_policy_of_the_listener_behind_a_rewritten_host(ghost):
    ghost.load_vcl(RETRY)
    rule = to(backend("pool"), filters=wire.Filters(rewrite=wire.Rewrite(hostname="internal.example")))
    shop = wire.Listener(name="shop", socket="http-80", hostname="shop.example", cache=policy())
    other = wire.Listener(name="other", socket="http-80", hostname="internal.example")
    routes = [
        route("r", rule, listeners=["shop"], hosts=["shop.example"]),
        route("o", to(backend("pool")), listeners=["other"], hosts=["internal.example"]),
    ]
    with ScriptedOrigin(page("tea", "X-Retry: 1", "Cache-Control: max-age=9"), page("alice"), page("bob")) as origin:
        ghost.reload(Config(routes, {"pool": [origin.endpoint]}, listeners=(shop, other)))
        found = [ghost.get("/account", host="shop.example", headers=[user]) for user in (ALICE, BOB)]
        assert [one.body for one in found] == [b"alice", b"bob"]
        assert reason(found[0]) == "uri-miss cookie"


# -- what one client can do to what others get -----------------------------------------


def test_no_store_does_not_evade_the_budget_of_validations(ghost, serve):
    with ScriptedOrigin(page("all", "Cache-Control: max-age=60")) as origin:
        serve(origin, cache=policy(revalidation=wire.Revalidation(per_object=3, per_route=1000)))
        ghost.get(path := "/budget-no-store")
        found = [ghost.get(path, headers=[("Cache-Control", "no-cache, no-store")]) for _ in range(6)]
        assert len(origin.requests) < 7
        assert reason(found[-1]) == "revalidation-budget"


@pytest.mark.parametrize(
    ("status", "lines"),
    [(403, ()), (431, ()), (200, ("Set-Cookie: a=1",)), (200, ("Cache-Control: private",))],
)
def test_response_to_a_forced_validation_does_not_destroy_the_fresh_one(ghost, serve, status, lines):
    with ScriptedOrigin(page("good"), page("bad", *lines, status=status)) as origin:
        serve(origin, cache=policy())
        ghost.get("/account")
        forced = ghost.get("/account", headers=[("Cache-Control", "no-cache")])
        assert (forced.status, forced.body) == (status, b"bad")
        after = ghost.get("/account")
        assert (after.body, outcome(after), len(origin.requests)) == (b"good", "hit", 2)


def test_retry_after_the_object_was_kept_does_not_ask_about_it(ghost, serve):
    ghost.load_vcl(RETRY)
    steps = [page("good", 'ETag: "a"'), page("bad", "X-Retry: 1", status=403), page("bad", status=403)]
    with ScriptedOrigin(*steps) as origin:
        serve(origin, cache=policy())
        ghost.get("/account")
        assert ghost.get("/account", headers=[("Cache-Control", "no-cache")]).status == 403
        assert [b"If-None-Match" in request for request in origin.requests] == [False, True, False]
        assert outcome(ghost.get("/account")) == "hit"


def test_unstored_response_in_the_background_leaves_the_one_in_grace(ghost, serve):
    with ScriptedOrigin(page("good"), page("bad", "Set-Cookie: a=1")) as origin:
        serve(origin, cache=policy(ttl=100, grace=60_000))
        ghost.get("/account")
        time.sleep(0.3)
        for _ in range(4):
            assert ghost.get("/account").body == b"good"
            time.sleep(0.1)
        assert len(origin.requests) > 2


def test_rejection_does_not_destroy_what_answers_errors(ghost, serve):
    steps = [page("good"), page("bad", status=403), page("error", status=500)]
    with ScriptedOrigin(*steps) as origin:
        serve(origin, cache=policy(ttl=100, grace=0, stale_if_error=60_000))
        ghost.get("/account")
        time.sleep(0.3)
        assert ghost.get("/account").status == 403
        time.sleep(1.2)
        assert ghost.get("/account").body == b"good"


def test_response_that_replaces_a_stale_one_for_all_removes_it(ghost, serve):
    steps = [page("good"), page("bad", "Cache-Control: private"), page("error", status=500)]
    with ScriptedOrigin(*steps) as origin:
        serve(origin, cache=policy(ttl=100, grace=0, stale_if_error=60_000, hit_for_miss=1))
        ghost.get("/account")
        time.sleep(0.3)
        assert ghost.get("/account").body == b"bad"
        time.sleep(0.1)
        assert ghost.get("/account").status == 500


def test_refresh_for_a_client_with_no_store_is_not_stored(ghost, serve):
    with ScriptedOrigin(page("old"), page("new")) as origin:
        serve(origin, cache=policy(ttl=100, grace=60_000))
        ghost.get("/account")
        time.sleep(0.3)
        assert ghost.get("/account", headers=[("Cache-Control", "no-store")]).body == b"old"
        time.sleep(0.2)
        assert len(origin.requests) == 1


def test_purged_object_does_not_answer_errors(ghost, serve):
    ghost.load_vcl("""
        import purge;
        sub vcl_miss { if (req.http.X-Purge) { purge.hard(); } }
        sub vcl_hit { if (req.http.X-Purge) { purge.hard(); } }
        """)
    steps = [page("good", "Cache-Control: max-age=60"), late(1.0, page("error", status=500))]
    with ScriptedOrigin(*steps) as origin, ThreadPoolExecutor(1) as pool:
        serve(origin, cache=policy(stale_if_error=60_000))
        ghost.get("/account")
        forced = pool.submit(ghost.get, "/account", headers=[("Cache-Control", "no-cache")])
        until(lambda: len(origin.requests) == 2, "the validation is under way")
        ghost.get("/account", headers=[("X-Purge", "1")])
        assert forced.result().status == 500
        assert len(origin.requests) == 2


# -- objects that are validated each time ----------------------------------------------


def test_objects_that_are_validated_each_time_do_not_pile_up(ghost, serve):
    lines = ("Cache-Control: no-cache", 'ETag: "a"')
    with ScriptedOrigin(late(0.05, page("app", *lines))) as origin, ThreadPoolExecutor(16) as pool:
        serve(origin, cache=policy())
        ghost.get("/index")
        before = objects(ghost)
        list(pool.map(lambda _: ghost.get("/index"), range(400)))
        ghost.get("/index")
        until(lambda: objects(ghost) <= before + 2, "older objects are removed")


def objects(ghost) -> int:
    call = ["varnishstat", "-1", "-n", str(ghost.directory / "varnish"), "-f", "MAIN.n_object"]
    return int(subprocess.run(call, capture_output=True, check=True, text=True).stdout.split()[1])


# -- age -------------------------------------------------------------------------------


def test_time_of_failed_attempts_is_no_age(ghost, serve):
    retry = wire.Retry(attempts=2, codes=(500,))
    steps = [late(2.5, page("error", status=500)), page("good", "Cache-Control: max-age=60")]
    with ScriptedOrigin(*steps) as origin:
        serve(origin, cache=policy(), retry=retry)
        assert int(ghost.get("/account").header("age")) <= 1
        assert len(origin.requests) == 2
