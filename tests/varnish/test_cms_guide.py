"""The requests of docs/guides/cms.md, sent to a real varnishd: each has the response that follows it on the page."""

import json
import re
from pathlib import Path

import pytest
from msgspec import structs

from support.varnish.caching import outcome, policy
from support.varnish.ghost import Config, backend, route, to
from support.varnish.invalidation import index, invalidate
from support.waiting import until
from varnish_gateway.ir import wire

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "cms.md"
BLOCK = re.compile(
    r"^```http\n(?P<request>.*?)^```\n\n```json\n(?P<response>.*?)^```|^## (?P<title>[^\n]*)$", re.MULTILINE | re.DOTALL
)
HOST = "shop.example.com"
PAGES = {
    "Drupal": {
        "/node/1": "Cache-Tags: node:1 node_list",
        "/": "Cache-Tags: node_list",
        "/node/2": "Cache-Tags: node:2 node:11",
    },
    "Magento 2": {
        "/tea.html": "X-Magento-Tags: cat_p_1,cat_c_3,FPC",
        "/mugs.html": "X-Magento-Tags: cat_p_11,cat_c_3,FPC",
        "/about": "X-Magento-Tags: cms_p_4,FPC",
    },
    "WordPress": {"/hello/": "X-Cache-Tags: p-1,c-2", "/": "X-Cache-Tags: c-2", "/about/": "X-Cache-Tags: p-11"},
    "FOSHttpCache": {"/tea": "xkey: tea front", "/": "X-Cache-Tags: front,all", "/tee": "xkey: teapot"},
}
"""What is stored before each request of a section."""


def examples() -> list[tuple[str, bytes, object]]:
    found, title = [], ""
    for block in BLOCK.finditer(GUIDE.read_text()):
        title = block["title"] or title
        if block["request"]:
            request = block["request"].rstrip("\n").replace("\n", "\r\n") + "\r\nConnection: close\r\n\r\n"
            found.append((title, request.encode(), json.loads(block["response"])))
    return found


EXAMPLES = examples()


def test_every_section_has_its_requests():
    assert {title for title, _, _ in EXAMPLES} == PAGES.keys()
    assert len(EXAMPLES) == GUIDE.read_text().count("```http") == 10


@pytest.mark.parametrize(
    ("title", "request_text", "response"), EXAMPLES, ids=[f"{title}-{at}" for at, (title, _, _) in enumerate(EXAMPLES)]
)
def test_request_of_the_guide_has_the_response_of_the_guide(ghost, tea, title, request_text, response):
    headers = ("Cache-Tags", "X-Magento-Tags", "X-Cache-Tags", "xkey")
    rule = to(backend("tea"), cache=policy(tag_headers=headers))
    allowed = wire.RequestRules(purge_ranges=("127.0.0.0/8",))
    own = structs.replace(route("shop", rule, hosts=[HOST]), namespace="shop")
    assert ghost.reload(Config([own], {"tea": [tea]}, requests=allowed)).status == 200
    invalidate(ghost, {"everything": True})
    until(lambda: index(ghost)["objects"] == 0, "the index is empty")
    for path, tags in PAGES[title].items():
        assert outcome(ghost.get(path, host=HOST, headers=[("Echo-Answer", json.dumps([tags]))])) == "uri-miss"
    answer = ghost.raw(request_text)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert (head.split()[1], json.loads(body)) == (b"200", response), answer
