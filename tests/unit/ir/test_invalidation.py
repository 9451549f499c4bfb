"""What an invalidation may say."""

import json

import msgspec
import pytest

from varnish_gateway import errors
from varnish_gateway.ir.invalidation import read_invalidation

TARGETS = [
    {"uri": {"host": "tea.example", "target": "/list?page=2"}},
    {"prefix": {"host": "tea.example:8080", "prefix": "/li"}},
    {"matching": {"host": "tea.example", "pattern": "^/v1/.*"}},
    {"host": "tea.example"},
    {"tags": ["a", "ü b"]},
    {"route": "shop/tea"},
    {"everything": True},
]


def read(document: object):
    return read_invalidation(json.dumps(document).encode())


def encoded(document: object) -> object:
    return json.loads(msgspec.json.encode(read(document)))


def test_ghost_gets_what_the_client_sent():
    document = {"mode": "soft", "targets": TARGETS, "routes": ["shop/tea"]}
    assert encoded(document) == document


def test_hard_is_the_default_and_absent_routes_are_no_restriction():
    assert encoded({"targets": TARGETS[:1]}) == {"mode": "hard", "targets": TARGETS[:1]}


def test_restriction_to_no_route_at_all_stays_one():
    assert encoded({"targets": TARGETS[:1], "routes": []})["routes"] == []


ONE_OF = "write one of uri, prefix, matching, host, tags, route, everything, and "


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "Expected `object`, got `array`"),
        ({"targets": []}, "targets: write one at least"),
        ({}, "Object missing required field `targets`"),
        ({"targets": [{}]}, f"targets[0]: {ONE_OF}nothing else"),
        ({"targets": [{"host": "a", "route": "a/b"}]}, f"targets[0]: {ONE_OF}not host with route"),
        ({"targets": [{"url": "x"}]}, "targets[0]: object contains unknown field `url`"),
        ({"targets": [{"host": None}]}, "targets[0].host: expected `str`, got `null`"),
        ({"targets": [TARGETS[0], {"uri": {"host": "a"}}]}, "targets[1].uri: object missing required field `target`"),
        ({"targets": [{"tags": ["a", 1]}]}, "targets[0].tags[1]: expected `str`, got `int`"),
        ({"targets": TARGETS[:1], "mode": "purge"}, "mode: invalid enum value 'purge'"),
        ({"targets": [{"route": "tea"}]}, "targets[0].route: write namespace/name"),
        ({"targets": TARGETS[:1], "routes": ["a/b", "tea"]}, "routes[1]: write namespace/name"),
    ],
)
def test_fault_names_the_field_and_the_remedy(document, message):
    with pytest.raises(errors.BadDocument) as raised:
        read(document)
    assert str(raised.value) == message


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b'{"targets": [{"host": "\xff"}]}'])
def test_bytes_that_are_no_json_are_a_bad_document(content):
    with pytest.raises(errors.BadDocument):
        read_invalidation(content)
