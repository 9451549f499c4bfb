"""vgw explain."""

import pytest

from varnish_gateway.cli.main import main


@pytest.fixture
def explain(cafe, capsys):
    def ask(*arguments: str) -> tuple[int, list[str]]:
        status = main(["explain", str(cafe), *arguments])
        out, err = capsys.readouterr()
        return status, (out + err).splitlines()

    return ask


def test_a_rule_with_backends_and_filters(explain):
    status, lines = explain("GET", "http://cafe.example.com:8080/tea/green", "-H", "x-v: 1")
    assert status == 0
    assert lines[:11] == [
        "Gateway    default/cafe, port 8080",
        "Listener   http (socket http-8080, hostname *)",
        'Route      default/cafe, rule 0, match 0 "tea"',
        "Because    host cafe.example.com, path prefix /tea",
        "Backends    90.0%  default/tea:80",
        "            10.0%  default/green:80",
        "Filter     request header x-a is set to 'b'",
        "Filter     request header x-c is removed",
        "Filter     Host becomes origin.example.com",
        "Filter     the matched prefix becomes /t",
        "Filter     the backend is asked for /t/green",
    ]
    assert lines[11].startswith(
        "Instead of default/cafe, rule 2, match 0: host cafe.example.com, path prefix /, method GET"
    )


def test_a_redirect(explain):
    status, lines = explain("GET", "http://cafe.example.com:8080/old?a=b")
    assert status == 0
    assert "Answer     301 to http://new.example.com:8080/old?a=b" in lines


def test_nothing_matches(explain):
    status, lines = explain("POST", "http://cafe.example.com:8080/nix")
    assert status == 1
    assert "Answer     404, no rule matches cafe.example.com/nix" in lines
    assert any(line.startswith("Considered default/cafe, rule 2") for line in lines)


def test_no_listener_takes_the_host(explain):
    status, lines = explain("GET", "http://cafe.example.com:8081/tea")
    assert status == 1
    assert lines == [
        "Gateway    default/cafe, port 8081",
        "Listener   none on http-8081 takes the host 'cafe.example.com'",
        "Answer     404, no listener matches",
    ]


def test_nothing_listens_there(explain):
    status, lines = explain("GET", "http://cafe.example.com:81/tea")
    assert status == 1
    served = "8080 (Gateway default/cafe), 8081 (Gateway default/cafe)"
    assert lines == [f"vgw: nothing listens on port 81: the connection is refused; ports served: {served}"]


def test_without_a_port_every_socket_answers(explain):
    status, lines = explain("GET", "/tea", "-H", "Host: cafe.example.com")
    assert status == 1, "one of them does not take it"
    assert [line for line in lines if line.startswith("Gateway")] == [
        "Gateway    default/cafe, port 8080",
        "Gateway    default/cafe, port 8081",
    ]


def test_a_request_that_is_refused(explain):
    status, lines = explain("GET", "/tea", "-H", "Host: a b")
    assert status == 1
    assert lines[0].startswith("vgw: the request is answered with 400: ")


def test_a_header_without_a_colon(cafe, capsys):
    with pytest.raises(SystemExit):
        main(["explain", str(cafe), "GET", "/", "-H", "nonsense"])
    assert "'nonsense' is not of the form 'name: value'" in capsys.readouterr().err


def test_an_url_that_makes_no_sense(explain):
    assert explain("GET", "http://a:b/")[0] == 2
