"""The VCL in docs/ compiles between our preamble and postamble, and docs/guides/caching.md says what it does."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.varnish.ghost import Config, GhostHarness, backend, prefix, refusing_endpoint, route, to
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import UserVcl

DOCS = Path(__file__).parents[2] / "docs"


def snippets(page: Path) -> list[str]:
    return re.findall(r"^```vcl\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def snippet(word: str) -> str:
    """Return the one snippet of docs/guides/caching.md that holds a word."""
    (found,) = [text for text in snippets(DOCS / "guides" / "caching.md") if word in text]
    return found


ALL = [(page.name, text) for page in sorted(DOCS.rglob("*.md")) for text in snippets(page)]
CHECKS = snippet("vcl_req_cookie")
COOKIES = snippet("unset req.http.Cookie")
STALE = snippet("is_bgfetch")
PURGING = snippet("PURGE").replace('"10.0.0.0"/8', '"127.0.0.1"')


@pytest.fixture(scope="module")
def shared() -> Iterator[GhostHarness]:
    with GhostHarness(Config()) as running:
        yield running


@pytest.fixture
def ghost(shared, tea) -> GhostHarness:
    """One rule for /tea."""
    assert shared.reload(serving(tea)).status == 200
    return shared


def serving(*members) -> Config:
    return Config([route("tea", to(backend("tea"), matches=[prefix("/tea")]))], {"tea": members})


def use(ghost: GhostHarness, tea, *texts: str) -> None:
    ghost.load_vcl(whole=main_vcl(UserVcl("docs", "\n".join(texts))))
    ghost.admin("ban", "req.url ~ .")
    tea.seen.clear()


@pytest.mark.parametrize("text", [text for _, text in ALL], ids=[f"{page}-{n}" for n, (page, _) in enumerate(ALL)])
def test_vcl_of_a_docs_page_compiles(ghost, tea, text):
    use(ghost, tea, text)
    assert ghost.get("/tea").origin == "tea"


@pytest.mark.parametrize(
    ("request_parts", "fetches"),
    [
        ({}, 1),
        ({"headers": [("Cookie", "a=b")]}, 2),
        ({"headers": [("Authorization", "Basic x")]}, 2),
        ({"method": "POST"}, 2),
    ],
    ids=["plain", "cookie", "authorization", "post"],
)
def test_with_the_checks_only_plain_requests_share_an_object(ghost, tea, request_parts, fetches):
    use(ghost, tea, CHECKS)
    for _ in range(2):
        ghost.get("/tea", **request_parts)
    assert len(tea.seen) == fetches


def test_without_the_checks_a_post_is_looked_up_and_becomes_a_get(ghost, tea):
    use(ghost, tea, "sub vcl_recv { return (hash); }")
    for cookie in ("a", "b"):
        ghost.get("/tea", method="POST", headers=[("Cookie", cookie)])
    assert [seen.method for seen in tea.seen] == ["GET"]


def test_cookies_are_removed_before_the_checks(ghost, tea):
    use(ghost, tea, COOKIES, CHECKS)
    for cookie in ("a", "b"):
        ghost.get("/tea/logo.png?1", headers=[("Cookie", cookie)])
    assert len(tea.seen) == 1


def test_host_case_and_port_are_part_of_the_cache_key(ghost, tea):
    use(ghost, tea, CHECKS)
    for host in ("shop.example.com", "Shop.example.com", "shop.example.com:80"):
        ghost.get("/tea", host=host)
    assert len(tea.seen) == 3
    use(ghost, tea, "sub vcl_recv { call vcl_req_host; }", CHECKS)
    for host in ("shop.example.com", "Shop.example.com"):
        ghost.get("/tea", host=host)
    assert len(tea.seen) == 1


def test_cache_hit_has_two_numbers_in_x_varnish(ghost, tea):
    use(ghost, tea, CHECKS, snippet("obj.hits"))
    answers = [ghost.get("/tea"), ghost.get("/tea")]
    reported = [(len(answer.header("x-varnish").split()), answer.header("x-cache")) for answer in answers]
    assert reported == [(1, "miss"), (2, "hit")]


@pytest.mark.parametrize(
    ("text", "away"),
    [(STALE, []), ("", [refusing_endpoint()]), ("", [])],
    ids=["abandoned", "refused", "without endpoints"],
)
def test_grace_serves_stale_objects_while_the_backend_is_down(ghost, tea, text, away):
    soon = "sub vcl_backend_response { set beresp.ttl = 0.5s; set beresp.grace = 1h; }"
    use(ghost, tea, CHECKS, soon, text)
    ghost.get("/tea")
    time.sleep(0.7)
    ghost.reload(serving(*away))
    found = []
    for _ in range(3):
        found.append(ghost.get("/tea").status)
        time.sleep(0.4)  # the fetch behind it is over
    assert found == [200] * 3


def test_purge_and_ban_in_user_vcl_invalidate_objects(ghost, tea):
    use(ghost, tea, PURGING, CHECKS)
    ghost.get("/tea/1")
    assert ghost.get("/tea/1", method="PURGE").status == 200
    ghost.get("/tea/1")
    assert len(tea.seen) == 2
    assert ghost.get("/", method="BAN", headers=[("X-Ban", "^/tea/")]).status == 200
    ghost.get("/tea/1")
    assert len(tea.seen) == 3
    assert ghost.get("/tea/1", method="BAN").status == 400


def test_an_unknown_method_passes_vcl_deliver(ghost, tea):
    """Varnishd's own vcl_req_method would pipe it."""
    use(ghost, tea, CHECKS, "sub vcl_deliver { set resp.http.X-Delivered = resp.status; }")
    assert ghost.get("/tea", method="BREW").header("x-delivered") == "200"
    assert [request.method for request in tea.seen] == ["BREW"]
