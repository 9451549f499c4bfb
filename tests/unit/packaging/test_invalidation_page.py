"""docs/reference/invalidation.md says what the code does."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from varnish_gateway.api.gateway_networking import INVALIDATION_TOKENS
from varnish_gateway.dataplane.ghost.invalidation import ANSWER_SECONDS
from varnish_gateway.dataplane.invalidation import page as http
from varnish_gateway.dataplane.invalidation import requests, token_file, turns
from varnish_gateway.ir.inspection import InspectionResult, StoredVariant
from varnish_gateway.ir.invalidation import LARGEST, InvalidationTarget, read_invalidation
from varnish_gateway.ir.tokens import SHORTEST, read_tokens
from varnish_gateway.operator.address import page as address
from varnish_gateway.operator.address import places, secret_tokens, server
from varnish_gateway.standalone.invalidations import AT_ONCE

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "invalidation.md").read_text()
GUIDE = (ROOT / "docs" / "guides" / "caching.md").read_text()
REQUEST, RESPONSE, TOKENS, OF_ALL_PODS, STORED = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
ROWS = dict(re.findall(r"^\| (.+?) \| (.+) \|$", PAGE, re.MULTILINE))


def test_example_has_every_kind_of_target_with_its_count():
    invalidation = read_invalidation(REQUEST.encode())
    fields = InvalidationTarget.__struct_fields__
    assert [next(iter(target)) for target in json.loads(REQUEST)["targets"]] == list(fields)
    assert len(json.loads(RESPONSE)["objects"]) == len(invalidation.targets)
    assert {f"`{field}`" for field in (*fields, "mode", "targets", "routes")} <= ROWS.keys()


def test_every_status_of_the_address_of_a_gateway_is_named():
    section = PAGE.partition("## One address for each Gateway")[2].partition("\n## ")[0]
    answered = set(re.findall(r"(?:error|again|document)\((\d{3})", Path(address.__file__).read_text()))
    assert answered <= set(re.findall(r"^- \*\*(\d{3})\*\*", section, re.MULTILINE)) | ROWS.keys()
    assert {"200", "503", "504"} <= answered
    for number in (address.OF_TOKEN, places.OF_NAMESPACE, places.IN_ALL, places.PER_SECOND):
        assert f"{number}" in section
    assert f"waited {address.WAIT_SECONDS:g} s" in section
    assert f"the {address.CONFIRM_SECONDS:g} s are over" in section
    assert INVALIDATION_TOKENS in section


def test_example_of_the_address_of_a_gateway_has_the_fields_of_the_code():
    example = msgspec.json.decode(OF_ALL_PODS, type=address.Answer)
    assert json.loads(msgspec.json.encode(example)) == json.loads(OF_ALL_PODS)
    assert sum(pod.objects or 0 for pod in example.pods) == sum(example.objects)
    assert {f"`pods[].{field}`" for field in address.PodCount.__struct_fields__} <= ROWS.keys()


def test_tokens_of_the_page_are_valid():
    assert [(token.name, token.is_scoped) for token in read_tokens(TOKENS.encode())] == [("ci", False), ("cms", True)]


def test_stored_responses_of_the_page_have_every_field_and_each_is_explained():
    (gateway,) = msgspec.json.decode(STORED, type=InspectionResult).gateways
    assert len(gateway.variants) == 1
    fields = {field.encode_name for field in msgspec.structs.fields(StoredVariant)}
    assert json.loads(STORED)["gateways"][0]["variants"][0].keys() == fields
    explained = {name for row in ROWS for name in re.findall(r"`(\w+)`", f"{row} {ROWS[row]}")}
    assert fields - {"status"} <= explained


def test_document_that_the_guide_writes_is_valid():
    (written,) = re.findall(r'^\$ echo "(.*)" > tokens.json$', GUIDE, re.MULTILINE)
    read_tokens(written.replace('\\"', '"').replace("$(cat token)", "0" * 64).encode())
    (sent,) = re.findall(r"^    -d '(.*)'$", GUIDE, re.MULTILINE)
    read_invalidation(sent.encode())


def test_every_status_of_the_endpoint_is_named():
    source = "".join(Path(module.__file__).read_text() for module in (http, requests))
    answered = set(re.findall(r"(?:error|again|document)\((\d{3})", source))
    assert {status for status in ROWS if status.isdecimal()} == answered


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("408", f"longer than {requests.BODY_SECONDS:g} s"),
        ("413", f"more than {LARGEST >> 20} MiB"),
        ("429", f"{turns.PRESENT} requests with this token"),
        ("`token`", f"at least {SHORTEST} letters"),
        ("a document", f"{LARGEST >> 20} MiB"),
        ("requests with one token", f"{turns.AT_ONCE} are read at once, {turns.PRESENT - turns.AT_ONCE} wait"),
        ("invalidations that varnishd carries out at once", f"{turns.CARRIED_OUT}, and {AT_ONCE} of its files"),
        ("looks at what is stored at once", str(turns.CARRIED_OUT)),
        ("how long varnishd has for one", f"{ANSWER_SECONDS:g} s, then 503"),
        ("the file of tokens", f"{token_file.LARGEST >> 20} MiB"),
        ("at the address of a Gateway: a document", f"{address.LARGEST_BODY >> 20} MiB"),
        ("… the document of tokens", f"{secret_tokens.LARGEST >> 10} KiB"),
        (
            "… requests",
            f"{address.OF_TOKEN_AT_ONCE} of a token at once, {address.OF_NAMESPACE_AT_ONCE} of a namespace",
        ),
        (
            "… pods that are asked at once",
            f"{address.PODS_OF_NAMESPACE_AT_ONCE} of a namespace, {address.PODS_AT_ONCE} in",
        ),
        ("… connections", f"{server.PER_SECOND} a second are accepted, and each has {server.HEAD_SECONDS:g} s"),
        ("… the time that pods have", f"{address.CONFIRM_SECONDS:g} s"),
    ],
)
def test_numbers_are_those_of_the_code(row, words):
    assert words in ROWS[row]
