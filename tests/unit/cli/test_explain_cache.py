"""vgw explain: the policy in force, the key, and whether a response is stored."""

import pytest
import yaml

from support.builders.objects import GATEWAY_API, VARNISH_API, document
from varnish_gateway.cli.main import main

RULES = [
    {"name": "assets", "matches": [{"path": {"value": "/assets"}}], "backendRefs": [{"name": "tea", "port": 80}]},
    {"name": "broken", "matches": [{"path": {"value": "/broken"}}], "backendRefs": [{"name": "tea", "port": 80}]},
    {
        "matches": [{"path": {"value": "/moved"}}],
        "filters": [{"type": "RequestRedirect", "requestRedirect": {"hostname": "a"}}],
    },
    {"backendRefs": [{"name": "tea", "port": 80}]},
    {
        "matches": [{"headers": [{"name": "x", "type": "RegularExpression", "value": ".*c"}]}],
        "backendRefs": [{"name": "tea", "port": 80}],
    },
]
CONDITIONS = [{"name": "x-debug"}, {"name": "x", "valueRegex": ".*b"}]


def policy(name: str, kind: str, target: str, section: str = "", **spec) -> dict:
    ref = {"group": GATEWAY_API, "kind": kind, "name": target} | ({"sectionName": section} if section else {})
    return document("VarnishCachePolicy", name, "default", group=VARNISH_API, spec={"targetRef": ref} | spec)


@pytest.fixture
def explain(tmp_path, capsys):
    documents = [
        document(
            "Gateway",
            "gw",
            "default",
            spec={
                "gatewayClassName": "varnish",
                "listeners": [
                    {"name": "web", "port": 8080, "protocol": "HTTP"},
                    {"name": "plain", "port": 8081, "protocol": "HTTP"},
                ],
            },
        ),
        document("HTTPRoute", "tea", "default", spec={"parentRefs": [{"name": "gw"}], "rules": RULES}),
        document("Service", "tea", "default", group="", spec={"ports": [{"port": 80}]}),
        document(
            "EndpointSlice",
            "tea",
            "default",
            group="discovery.k8s.io",
            metadata={"labels": {"kubernetes.io/service-name": "tea"}},
            addressType="IPv4",
            ports=[{"port": 80}],
            endpoints=[{"addresses": ["127.0.0.1"]}],
        ),
        policy("listener", "Gateway", "gw", "web", defaultTTL="30s", bypass={"headers": CONDITIONS}),
        policy("assets", "HTTPRoute", "tea", "assets", presets=["static"]),
        policy(
            "broken",
            "HTTPRoute",
            "tea",
            "broken",
            defaultTTL="1m",
            bypass={"headers": [{"name": "x", "valueRegex": "("}]},
        ),
    ]
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all(documents))

    def ask(*arguments: str) -> list[str]:
        ask.status = main(["explain", str(file), *arguments])
        return capsys.readouterr().out.splitlines()

    return ask


def test_policy_in_force_is_shown_with_its_source_its_fields_and_the_key(explain):
    lines = explain("GET", "http://tea.example.com:8080/assets/a.css?utm_source=x&b=2&a=1")
    start = lines.index(
        "Cache      VarnishCachePolicy default/assets, which is for rule assets of HTTPRoute default/tea"
    )
    assert lines[start + 1].startswith("           defaultTTL 86,400 s, ")
    assert "cacheKey.queryParameters.exclude [utm_*, gclid" in lines[start + 1]
    key = "rule 'default/tea/assets', listener 'web', scheme 'http', host 'tea.example.com', port '8080'"
    assert lines[start + 2] == f"Key        {key}, path '/assets/a.css', query 'a=1&b=2'"


@pytest.mark.parametrize(
    ("url", "headers", "expected"),
    [
        ("http://TEA.example.com.:8080/", (), "host 'tea.example.com', port '8080', path '/'"),
        ("http://ignored:8080/", ("Host: tea.example.com",), "host 'tea.example.com', path '/'"),
        ("http://ignored:8080/", ("Host: tea.example.com:80",), "host 'tea.example.com', path '/'"),
        ("http://ignored:8080/", ("Host: tea.example.com:443",), "host 'tea.example.com', port '443', path '/'"),
    ],
)
def test_key_has_the_port_that_the_client_sends_unless_it_is_that_of_the_scheme(explain, url, headers, expected):
    lines = explain("GET", url, *(part for header in headers for part in ("-H", header)))
    (key,) = [line for line in lines if line.startswith("Key")]
    assert key.endswith(expected)


def test_rule_without_a_policy_has_that_of_its_listener(explain):
    lines = explain("GET", "http://tea.example.com:8080/")
    assert "Cache      VarnishCachePolicy default/listener, which is for listener web of Gateway default/gw" in lines


def test_response_that_is_stored_is_explained(explain):
    lines = explain(
        "GET", "http://tea.example.com:8080/assets", "--response", "Cache-Control: max-age=60", "--response", "Age: 20"
    )
    start = next(number for number, line in enumerate(lines) if line.startswith("Response"))
    assert lines[start].startswith("Response   stored, fresh for 40 s: ")
    assert "max-age" in lines[start]
    assert "           it is 20 s old on arrival, of a lifetime of 60 s" in lines
    assert any("if the origin fails" in line for line in lines)


def test_windows_that_the_origin_states_are_explained(explain):
    stated = "Cache-Control: s-maxage=60, stale-while-revalidate=30"
    lines = explain("GET", "http://tea.example.com:8080/", "--response", stated)
    assert any("then used for 30 s while the gateway fetches a new one" in line for line in lines)
    assert "           clients can't ask for a stale one by max-stale" in lines


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--response", "Cache-Control: private"],
            "Response   not stored: the response is private (RFC 9111, section 5.2.2.7) (private)",
        ),
        (
            ["--response-status", "503"],
            (
                "Response   not stored: a 5xx is stored if its origin or the policy's statusTTLs states a lifetime "
                "(server-error)"
            ),
        ),
        (
            ["-H", "X-Debug: 1", "--response", "a: b"],
            "Passes     the policy's bypass.headers has a header of the request (bypass-header)",
        ),
        (
            ["-H", "Content-Length: 3"],
            "Passes     the body of the request isn't part of the key (request-body)",
        ),
        (
            ["-H", "If-Unmodified-Since: 0"],
            (
                "Passes     only the origin evaluates If-Match and If-Unmodified-Since (RFC 9111, section 4.3.2) "
                "(precondition)"
            ),
        ),
        (
            ["-H", "X-Forwarded-Host: evil", "--response", "a: b"],
            "Removed    request header x-forwarded-host: it isn't part of the key, so the origin doesn't get it",
        ),
    ],
)
def test_decision_names_what_decided_it(explain, arguments, expected):
    assert expected in explain("GET", "http://tea.example.com:8080/", *arguments)


@pytest.mark.parametrize(
    ("length", "start", "status"),
    [(700_000, "Key        rule 'default/tea/", 0), (800_000, "Answer     431, routes and their cache policy take", 1)],
)
def test_rule_and_policy_share_the_budget(explain, length, start, status):
    """Either reads each byte of the header once."""
    lines = explain("GET", "http://tea.example.com:8080/", "-H", "x: " + "a" * length)
    assert next(line for line in lines if line.startswith(("Key", "Answer"))).startswith(start)
    assert explain.status == status


def test_request_with_a_body_passes_before_its_policy_spends_any_steps(explain):
    lines = explain("GET", "http://tea.example.com:8080/", "-H", "Content-Length: 1", "-H", "x: " + "a" * 800_000)
    assert "Passes     the body of the request isn't part of the key (request-body)" in lines
    assert explain.status == 0
    lines = explain("POST", "http://tea.example.com:8080/", "-H", "Content-Length: 1")
    assert any(line.endswith("(method)") for line in lines)


def test_query_that_the_policy_takes_too_many_steps_for_is_an_error(explain):
    lines = explain("GET", "http://tea.example.com:8080/assets?" + "a&" * 400_000)
    assert any(line.startswith("Answer     414, routes and their cache policy take") for line in lines)
    assert explain.status == 1


def test_invalid_policy_caches_nothing(explain):
    lines = explain("GET", "http://tea.example.com:8080/broken", "--response", "Cache-Control: max-age=60")
    assert "           nothing is cached: the policy is invalid, see its status" in lines
    assert not any(line.startswith("Response") for line in lines)


def test_without_a_policy_a_response_is_not_stored(explain):
    lines = explain("GET", "http://tea.example.com:8081/", "--response", "Cache-Control: max-age=60")
    assert any(
        line.startswith("Cache      nothing is cached: no VarnishCachePolicy is for this rule") for line in lines
    )
    assert not any(line.startswith("Cache") for line in explain("GET", "http://tea.example.com:8081/"))


def test_redirect_has_nothing_to_do_with_the_cache(explain):
    assert not any(line.startswith("Cache") for line in explain("GET", "http://tea.example.com:8080/moved"))


def test_status_that_is_none_is_rejected(explain):
    assert explain("GET", "http://tea.example.com:8080/", "--response-status", "99") == []
