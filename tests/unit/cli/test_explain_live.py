"""vgw explain --live, against a gateway that gives a fixed answer."""

import json

import pytest
import yaml

from support.builders.objects import document
from varnish_gateway.cli.main import main

TOKEN = "0123456789abcdef"
URL = "http://TEA.example.com:8080/a/../b?c"
FRESH = {
    "rule": "default/tea/0",
    "policy": "default/pages",
    "status": 200,
    "fresh": True,
    "age": 18_000,
    "lifetime": 60_000,
    "ttl": 42_000,
    "grace": 52_000,
    "staleIfError": 642_000,
    "kept": 700_000,
    "mustRevalidate": False,
    "alwaysRevalidate": False,
    "hits": 1204,
    "size": 12345,
    "vary": "Accept-Language",
    "tags": ["a", "b%20c"],
    "moreTags": 3,
    "reason": "max-age",
}


@pytest.fixture
def manifests(tmp_path):
    listeners = [{"name": "web", "port": 8080, "protocol": "HTTP"}]
    of_gateway = {"gatewayClassName": "varnish", "listeners": listeners}
    rule = {"backendRefs": [{"name": "tea", "port": 80}], "matches": [{"path": {"value": "/b"}}]}
    documents = [
        document("Gateway", "gw", "default", spec=of_gateway),
        document("HTTPRoute", "tea", "default", spec={"parentRefs": [{"name": "gw"}], "rules": [rule]}),
    ]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(documents))
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    return tmp_path


@pytest.fixture
def live(gateway, manifests, capsys):
    def live(*variants: dict, name: str = "default/gw", url: str = URL, answers: bool = True, **fields) -> list[str]:
        """Return what is printed about stored responses."""
        if answers:
            gateway.answer = (200, json.dumps({"gateways": [{"name": name, "variants": variants, **fields}]}).encode())
        options = ("--live", "--address", f"127.0.0.1:{gateway.server_port}", "--token-file", str(manifests / "token"))
        live.status = main(["explain", str(manifests / "all.yaml"), "GET", url, *options])
        captured = capsys.readouterr()
        lines, live.errors = captured.out.splitlines(), captured.err
        start = next((number for number, line in enumerate(lines) if line.startswith("Stored")), len(lines))
        return lines[start:]

    return live


def test_stored_responses_are_shown_and_the_url_is_asked_for_as_it_is_compared(live, gateway):
    assert live(FRESH) == [
        "Stored     fresh for 42 s of 60 s (max-age), 18 s old, 1,204 hits, 12,345 bytes, status 200",
        "           by default/pages, rule default/tea/0",
        "           varies by Accept-Language",
        "           then used for 10 s while the gateway fetches a new one",
        "           then used for 600 s if the origin fails",
        "           removed in 700 s",
        "           tags a, b%20c and 3 more",
    ]
    document = {"host": "tea.example.com", "target": "/b?c"}
    assert gateway.seen == [("/inspect", f"Bearer {TOKEN}", document)]


@pytest.mark.parametrize(
    ("fields", "first", "windows"),
    [
        (
            {"fresh": False, "ttl": -3_000, "grace": 7_000, "staleIfError": 0, "size": None},
            "stale for 3 s, after a lifetime of 60 s (max-age), 18 s old, 1,204 hits, its body is arriving, status 200",
            ["used for 7 s while the gateway fetches a new one"],
        ),
        (
            {"fresh": False, "alwaysRevalidate": True, "mustRevalidate": True, "reason": "no-cache"},
            "validated before each use, lifetime 60 s (no-cache), 18 s old, 1,204 hits, 12,345 bytes, status 200",
            ["not used stale: must-revalidate"],
        ),
    ],
    ids=["stale", "always validated"],
)
def test_stale_responses_say_for_how_long_they_are_used(live, fields, first, windows):
    rest = {"vary": "", "tags": [], "moreTags": 0}
    found = [line[11:] for line in live(FRESH | rest | fields)]
    assert found == [first, "by default/pages, rule default/tea/0", *windows, "removed in 700 s"]


@pytest.mark.parametrize(
    ("answer", "row"),
    [
        ({"name": "default/gw"}, "nothing that the token is for"),
        ({"name": ""}, "nothing that the token is for"),
        ({"name": "default/gw", "more": True}, "unknown: the gateway looked for too long"),
        ({"name": "default/gw", "error": "it restarts"}, "unknown: it restarts"),
        ({"name": "default/other"}, "unknown: the gateway at --address doesn't serve this Gateway"),
    ],
)
def test_what_is_not_stored_or_not_known_is_said(live, answer, row):
    assert live(**answer) == [f"Stored     {row}"]
    assert live.status == 1, "the files have no Service"


def test_url_that_no_rule_serves_is_not_asked_for(live, gateway):
    assert live(url="http://tea.example.com:8080/other") == []
    assert gateway.seen == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((401, b'{"error": "send a token"}'), " answered 401: send a token"),
        ((200, b'{"gateways": [{"variants": 1}]}'), " answers, but not as a gateway"),
    ],
)
def test_gateway_that_gives_no_answer_is_an_error(live, gateway, answer, reason):
    gateway.answer = answer
    assert live(answers=False) == []
    assert live.status == 1
    assert f"vgw: 127.0.0.1:{gateway.server_port}{reason}" in live.errors


def test_live_needs_a_token(manifests, capsys):
    assert main(["explain", str(manifests / "all.yaml"), "GET", URL, "--live"]) == 2
    error = capsys.readouterr().err
    assert error.endswith("vgw: --live: the gateway tells only who has a token; add --token-file\n")
