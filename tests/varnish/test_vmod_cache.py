"""ghost and what user VCL keeps in the cache: keys, grace, revalidation, retries."""

import time

import pytest

from support.http.scripted_origin import ScriptedOrigin, answer, trickle
from support.varnish.ghost import CACHE_EVERYTHING, Config, backend, prefix, route, to
from varnish_gateway.ir import wire

SHORT = """
sub vcl_backend_response { if (beresp.status < 400) { set beresp.ttl = 0.05s; set beresp.grace = 1h; } }
"""
NOT_MODIFIED = trickle([b'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n'], 0)
PREFIX = wire.Filters(rewrite=wire.Rewrite(path=wire.PathModifier(type="prefix", value="/new")))


@pytest.fixture(autouse=True)
def empty(ghost, tea, coffee) -> None:
    ghost.admin("ban", "req.url ~ .")
    tea.seen.clear()
    coffee.seen.clear()


def adding(name: str, value: str) -> wire.Filters:
    return wire.Filters(response=wire.HeaderModifier(add=(wire.Header(name=name, value=value),)))


# -- keys ------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["1", "2"])
@pytest.mark.parametrize("of_backend", [False, True])
def test_matches_that_rewrite_differently_share_no_object(ghost, tea, first, of_backend):
    deep = wire.Match(path=wire.PathMatch(type="prefix", value="/a/b"), headers=(wire.ValueMatch(name="x", value="1"),))
    filters = {} if of_backend else {"filters": PREFIX}
    service = backend("tea", filters=PREFIX if of_backend else None)
    ghost.reload(Config([route("r", to(service, matches=[deep, prefix("/a")], **filters))], {"tea": [tea]}))
    ghost.load_vcl(CACHE_EVERYTHING)
    second = {"1": "2", "2": "1"}[first]
    targets = {x: ghost.get("/a/b/c", headers=[("X", x)]).json["target"] for x in (first, second, first, second)}
    assert targets == {"1": "/new/c", "2": "/new/b/c"}
    assert len(tea.seen) == 2


def test_object_of_a_backend_that_lost_its_weight_is_not_served(ghost, tea, coffee):
    def weights(of_tea: int, of_coffee: int) -> Config:
        rule = to(backend("tea", weight=of_tea), backend("coffee", weight=of_coffee))
        return Config([route("r", rule)], {"tea": [tea], "coffee": [coffee]})

    ghost.reload(weights(100, 0))
    ghost.load_vcl(CACHE_EVERYTHING)
    assert ghost.get("/swapped").origin == "tea"
    ghost.reload(weights(0, 100))
    assert ghost.get("/swapped").origin == "coffee"
    ghost.reload(weights(1, 99))
    kept = ghost.get("/swapped").origin
    ghost.reload(weights(99, 1))
    assert {ghost.get("/swapped").origin for _ in range(5)} == {kept}


# -- grace and revalidation ------------------------------------------------------------


def test_grace_outlives_a_service_without_endpoints(ghost, tea):
    routes = [route("r", to(backend("tea")))]
    ghost.reload(Config(routes, {"tea": [tea]}))
    ghost.load_vcl(CACHE_EVERYTHING + SHORT)
    assert ghost.get("/kept").origin == "tea"
    ghost.reload(Config(routes, {"tea": []}))
    for _ in range(5):
        time.sleep(0.1)
        assert ghost.get("/kept").answered_by == "tea"
    unknown = ghost.get("/unknown")
    assert (unknown.status, unknown.json["status"]) == (503, 503)


def test_grace_outlives_a_share_without_backend(ghost, tea):
    """All but one in a million go to a backendRef that can't be resolved."""

    def shares(of_tea: int, unresolved: int) -> Config:
        rule = to(backend("tea", weight=of_tea), wire.Backend(status=500, weight=unresolved))
        return Config([route("r", rule)], {"tea": [tea]})

    ghost.reload(shares(999_999, 1))
    ghost.load_vcl(CACHE_EVERYTHING + SHORT)
    assert ghost.get("/kept").origin == "tea"
    ghost.reload(shares(1, 999_999))
    for _ in range(5):
        time.sleep(0.1)
        assert ghost.get("/kept").answered_by == "tea"
    assert ghost.get("/unknown").status == 500


def test_revalidated_object_has_added_headers_once(ghost):
    fresh = answer(headers=['ETag: "a"', "X-A: of the origin"])
    with ScriptedOrigin(fresh, NOT_MODIFIED) as origin:
        service = backend("pool", filters=adding("x-a", "1"))
        ghost.reload(Config([route("r", to(service))], {"pool": [origin.endpoint]}))
        ghost.load_vcl(CACHE_EVERYTHING + SHORT)
        for _ in range(6):
            assert ghost.get("/revalidated").values("x-a") == ["of the origin", "1"]
            time.sleep(0.15)
        assert len(origin.requests) > 3


# -- retries of user VCL ---------------------------------------------------------------


def test_the_answer_of_another_backend_is_kept_and_not_filtered(ghost, coffee):
    ghost.reload(Config([route("r", to(backend("tea", filters=adding("x-tea", "1"))))], {"tea": []}))
    own = f'backend own {{ .host = "127.0.0.1"; .port = "{coffee.port}"; }}'
    ghost.load_vcl(
        own
        + CACHE_EVERYTHING
        + """
        sub vcl_backend_fetch { if (bereq.retries == 1) { set bereq.backend = own; } }
        sub vcl_backend_response { if (beresp.status == 503) { return (retry); } set beresp.ttl = 1h; }
        """
    )
    for _ in range(3):
        served = ghost.get("/elsewhere")
        assert (served.answered_by, served.values("x-tea")) == ("coffee", [])
    assert len(coffee.seen) == 1


def test_a_pass_stays_a_pass_in_a_retry(ghost, coffee):
    ghost.reload(Config([route("r", to(backend("tea")))], {"tea": []}))
    own = f'backend own {{ .host = "127.0.0.1"; .port = "{coffee.port}"; }}'
    ghost.load_vcl(
        own
        + """
        sub vcl_backend_fetch { if (bereq.retries == 1) { set bereq.backend = own; } }
        sub vcl_backend_response { if (beresp.status == 503) { return (retry); } set beresp.ttl = 1h; }
        """
    )
    for _ in range(2):
        assert ghost.get("/passed").answered_by == "coffee"
    assert len(coffee.seen) == 2


def test_a_redirect_may_be_retried(ghost):
    redirect = wire.Rule(matches=(wire.Match(),), redirect=wire.Redirect(hostname="b.example", status=302))
    ghost.reload(Config([route("r", redirect)]))
    ghost.load_vcl("sub vcl_backend_response { if (bereq.retries == 0) { return (retry); } }")
    assert ghost.get("/").status == 302
