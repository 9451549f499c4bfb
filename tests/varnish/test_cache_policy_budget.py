"""One budget of steps for each request: its rule and its cache policy spend it together."""

import pytest

from support.http.scripted_origin import ScriptedOrigin, answer
from support.varnish.caching import outcome, policy, reason
from support.varnish.ghost import CACHE_EVERYTHING, Config, GhostHarness, backend, route, to
from varnish_gateway.ir import wire

pytestmark = pytest.mark.usefixtures("long_headers", "empty_cache", "unseen_origins")

HALF = 40
"""So many patterns take a good half of the budget for LONG."""
LONG = "a" * 20_000
MANY = "&".join(["a"] * 3_500)
"""So many names take more than the budget: each is compared for the key, and once more for the origin."""


@pytest.fixture
def long_headers(ghost: GhostHarness) -> None:
    """Let varnishd take headers and targets of up to 32 KB."""
    ghost.admin("param.set", "http_req_hdr_len", "32k")


def serve_tea(ghost, tea, cache: wire.CachePolicy | None, **rule) -> None:
    assert ghost.reload(Config([route("r", to(backend("tea"), cache=cache, **rule))], {"tea": [tea]})).status == 200


def bypassing(count: int) -> wire.Bypass:
    return wire.Bypass(headers=tuple(wire.BypassHeader(name="x", value_regex=f".*b{n}") for n in range(count)))


def excluding(*names: str) -> wire.CacheKey:
    return wire.CacheKey(query_parameters=wire.QueryParameters(exclude=names))


def matches(count: int) -> list[wire.Match]:
    """Return matches by header x, and one that every request meets."""
    values = (wire.ValueMatch(name="x", value=f".*c{n}", type="regex") for n in range(count))
    return [*(wire.Match(headers=(value,)) for value in values), wire.Match()]


def counted(counters: dict) -> int:
    """Return how many errors of clients are counted for the only route."""
    return counters["routes"]["default/r"]["status"]["4xx"]


@pytest.mark.parametrize(
    ("fields", "parts", "status"),
    [
        ({"bypass": bypassing(60)}, {"headers": [("X", "a" * 30_000)]}, 431),
        ({"bypass": wire.Bypass(cookies=("*session*",))}, {"headers": [("Cookie", "a;" * 10_000 + "session=1")]}, 431),
        ({"cache_key": excluding("*b")}, {"path": f"/?{MANY}"}, 414),
    ],
    ids=["header", "cookies", "query"],
)
def test_request_that_a_policy_takes_too_many_steps_for_is_an_error_and_counted(ghost, tea, fields, parts, status):
    serve_tea(ghost, tea, policy(**fields))
    before = ghost.counters()
    answer = ghost.get(**parts)
    assert answer.status == status
    assert "take more than 1500000 steps" in answer.json["reason"]
    assert (outcome(answer), reason(answer)) == ("bypass", "over-budget")
    after = ghost.counters()
    assert after["overBudget"] == before["overBudget"] + 1
    assert counted(after) == counted(before) + 1
    assert "ghost-cache:over-budget" in ghost.log
    assert len(tea.seen) == 0
    # Others are cached as before.
    assert [outcome(ghost.get("/?c")) for _ in range(2)] == ["uri-miss", "hit"]
    assert ghost.counters()["overBudget"] == before["overBudget"] + 1


def test_rule_and_policy_share_the_budget(ghost, tea):
    for count, cache in [(HALF, policy()), (0, policy(bypass=bypassing(HALF)))]:
        serve_tea(ghost, tea, cache, matches=matches(count))
        assert ghost.get("/", headers=[("X", LONG)]).status == 200
    serve_tea(ghost, tea, policy(bypass=bypassing(HALF)), matches=matches(HALF))
    assert ghost.get("/", headers=[("X", LONG)]).status == 431
    serve_tea(ghost, tea, policy(cache_key=excluding("*b")), matches=matches(HALF))
    query = "&".join(["a"] * 2_000)
    assert ghost.get(f"/?{query}").status == 200
    assert ghost.get(f"/?{query}", headers=[("X", LONG)]).status == 414


def test_error_is_made_again_and_holds_up_no_other_request(ghost, tea):
    serve_tea(ghost, tea, policy(cache_key=excluding("*b")))
    answers = [ghost.get(f"/?{MANY}") for _ in range(3)]
    assert [(one.status, reason(one)) for one in answers] == [(414, "over-budget")] * 3
    assert len(tea.seen) == 0


def test_request_that_user_vcl_changes_and_restarts_after_the_error_finds_what_is_stored(ghost, tea):
    """A rollback leaves nothing of the lookup that found nothing for want of a key."""
    ghost.load_vcl(
        """
        import std;
        sub vcl_deliver {
            if (resp.status == 414) { std.rollback(req); set req.url = "/short"; return (restart); }
        }
        """
    )
    serve_tea(ghost, tea, policy(cache_key=excluding("*b")))
    assert outcome(ghost.get("/short")) == "uri-miss"
    assert outcome(ghost.get(f"/?{MANY}")) == "hit"


def test_user_vcl_that_has_the_cache_asked_gets_the_same_error(ghost, tea):
    ghost.load_vcl(CACHE_EVERYTHING)
    serve_tea(ghost, tea, policy(cache_key=excluding("*b")))
    assert ghost.get(f"/?{MANY}").status == 414
    assert len(tea.seen) == 0


def test_restart_gives_no_steps_back(ghost, tea):
    ghost.load_vcl("sub vcl_deliver { if (req.http.again && req.restarts < 1) { return (restart); } }")
    serve_tea(ghost, tea, None, matches=matches(HALF))
    assert ghost.get("/", headers=[("X", LONG)]).status == 200
    assert ghost.get("/", headers=[("X", "a"), ("Again", "1")]).status == 200
    assert ghost.get("/", headers=[("X", LONG), ("Again", "1")]).status == 431


def test_restart_for_a_stale_response_gives_the_steps_back(ghost, serve):
    fresh = answer(headers=["Cache-Control: max-age=0, stale-if-error=60"])
    with ScriptedOrigin(fresh, answer(500)) as origin:
        serve(origin, cache=policy(bypass=bypassing(5)), matches=matches(HALF))
        answers = [ghost.get("/", headers=[("X", LONG)]) for _ in range(2)]
        assert [(one.status, one.body) for one in answers] == [(200, b"done")] * 2
        assert reason(answers[1]) == "stale-if-error"


@pytest.mark.parametrize("audience", ["off", "on"])
def test_key_in_cache_status_takes_no_steps(ghost, tea, audience):
    ghost.load_vcl("sub vcl_deliver { if (req.restarts < 1) { return (restart); } }")
    serve_tea(ghost, tea, policy(cache_key=excluding("*b"), cache_status=audience))
    assert ghost.get(f"/?{'&'.join(['a'] * 1_200)}").status == 200


def test_query_that_user_vcl_lengthens_behind_the_key_is_an_error_of_the_fetch(ghost, tea):
    """Without a decision about each parameter, the origin would get some that are not in the key."""
    ghost.load_vcl('sub vcl_miss { if (req.http.more) { set req.url = req.url + "?" + req.http.more; } }')
    serve_tea(ghost, tea, policy(cache_key=excluding("*b")))
    before = ghost.counters()["overBudget"]
    assert ghost.get("/", headers=[("More", MANY)]).status == 414
    assert ghost.counters()["overBudget"] == before + 1
    assert "ghost-store:over-budget" in ghost.log
    assert len(tea.seen) == 0
    assert [outcome(ghost.get("/")) for _ in range(2)] == ["uri-miss", "hit"]
