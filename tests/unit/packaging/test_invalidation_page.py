"""docs/reference/invalidation.md says what the code does."""

import json
import re
from pathlib import Path

import pytest

from varnish_gateway.dataplane.ghost.invalidation import ANSWER_SECONDS
from varnish_gateway.dataplane.invalidation import page as http
from varnish_gateway.dataplane.invalidation import token_file, turns
from varnish_gateway.ir.invalidation import LARGEST, InvalidationTarget, read_invalidation
from varnish_gateway.ir.tokens import SHORTEST, read_tokens

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "invalidation.md").read_text()
GUIDE = (ROOT / "docs" / "guides" / "caching.md").read_text()
REQUEST, RESPONSE, TOKENS = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
ROWS = dict(re.findall(r"^\| (.+?) \| (.+) \|$", PAGE, re.MULTILINE))


def test_example_has_every_kind_of_target_with_its_count():
    invalidation = read_invalidation(REQUEST.encode())
    fields = InvalidationTarget.__struct_fields__
    assert [next(iter(target)) for target in json.loads(REQUEST)["targets"]] == list(fields)
    assert len(json.loads(RESPONSE)["objects"]) == len(invalidation.targets)
    assert {f"`{field}`" for field in (*fields, "mode", "targets", "routes")} <= ROWS.keys()


def test_tokens_of_the_page_are_valid():
    assert [(token.name, token.is_scoped) for token in read_tokens(TOKENS.encode())] == [("ci", False), ("cms", True)]


def test_document_that_the_guide_writes_is_valid():
    (written,) = re.findall(r'^\$ echo "(.*)" > tokens.json$', GUIDE, re.MULTILINE)
    read_tokens(written.replace('\\"', '"').replace("$(cat token)", "0" * 64).encode())
    (sent,) = re.findall(r"^    -d '(.*)'$", GUIDE, re.MULTILINE)
    read_invalidation(sent.encode())


def test_every_status_of_the_endpoint_is_named():
    source = Path(http.__file__).read_text()
    answered = set(re.findall(r"(?:_error|_again|_json)\((\d{3})", source))
    assert {status for status in ROWS if status.isdecimal()} == answered


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("408", f"longer than {http.BODY_SECONDS:g} s"),
        ("413", f"more than {LARGEST >> 20} MiB"),
        ("429", f"{turns.PRESENT} requests with this token"),
        ("`token`", f"at least {SHORTEST} letters"),
        ("a document", f"{LARGEST >> 20} MiB"),
        ("requests with one token", f"{turns.AT_ONCE} are read at once, {turns.PRESENT - turns.AT_ONCE} wait"),
        ("invalidations that varnishd carries out at once", str(turns.CARRIED_OUT)),
        ("how long varnishd has for one", f"{ANSWER_SECONDS:g} s, then 503"),
        ("the file of tokens", f"{token_file.LARGEST >> 20} MiB"),
    ],
)
def test_numbers_are_those_of_the_code(row, words):
    assert words in ROWS[row]
