"""vgw purge, against a gateway that gives a fixed answer."""

import json
import socket

import pytest

from varnish_gateway.cli import health_address
from varnish_gateway.cli.main import main

TOKEN = "0123456789abcdef"


@pytest.fixture
def run(gateway, tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\n")

    def run(*arguments: str) -> int:
        address = f"127.0.0.1:{gateway.server_port}"
        return main(["purge", "--address", address, "--token-file", str(tmp_path / "token"), *arguments])

    return run


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        (["https://tea.example/list?page=2"], {"uri": {"host": "tea.example", "target": "/list?page=2"}}),
        (["https://tea.example//a?"], {"uri": {"host": "tea.example", "target": "//a"}}),
        (["https://tea.example"], {"uri": {"host": "tea.example", "target": "/"}}),
        (["http://tea.example:8080/a#b"], {"uri": {"host": "tea.example:8080", "target": "/a"}}),
        (["http://user@[2001:db8::1]:80/?"], {"uri": {"host": "[2001:db8::1]:80", "target": "/"}}),
        (["--prefix", "https://tea.example/li"], {"prefix": {"host": "tea.example", "prefix": "/li"}}),
        (["--prefix", "https://tea.example/li?"], {"prefix": {"host": "tea.example", "prefix": "/li?"}}),
        (["--prefix", "https://tea.example?"], {"prefix": {"host": "tea.example", "prefix": "/?"}}),
        (["--prefix", "https://tea.example/li#?"], {"prefix": {"host": "tea.example", "prefix": "/li"}}),
        (["--matching", "tea.example", "^/v1/.*"], {"matching": {"host": "tea.example", "pattern": "^/v1/.*"}}),
        (["--host", "tea.example"], {"host": "tea.example"}),
        (["--tag", "product-17"], {"tags": ["product-17"]}),
        (["--tag", "50% ü"], {"tags": ["50%25%20%C3%BC"]}),
        (["--tag", "\udcff"], {"tags": ["%FF"]}),
        (["--route", "shop/tea"], {"route": "shop/tea"}),
        (["--everything"], {"everything": True}),
    ],
    ids=lambda value: " ".join(value).encode("ascii", "replace").decode() if isinstance(value, list) else "",
)
def test_target_is_sent_as_the_gateway_takes_it(run, gateway, arguments, target):
    assert run(*arguments) == 0
    assert gateway.seen == [("/invalidate", f"Bearer {TOKEN}", {"mode": "hard", "targets": [target]})]


def test_counts_are_printed_with_their_targets(run, gateway, capsys):
    gateway.answer = (200, b'{"objects":[12,0,100000]}')
    assert run("--soft", "https://a.example/", "--tag", "b", "--tag", "c") == 0
    assert gateway.seen[0][2]["mode"] == "soft"
    assert capsys.readouterr().out == "      12  https://a.example/\n       0  --tag b\n  100000  --tag c\n"


def test_gateway_in_a_cluster_has_an_address_of_its_own_and_its_pods_are_printed(run, gateway, capsys):
    gone = {"name": "web-c", "result": "gone", "message": "it went"}
    pods = [{"name": "web-a", "result": "confirmed", "objects": 2}, {"name": "web-b", "result": "confirmed"}, gone]
    gateway.answer = (200, json.dumps({"objects": [2], "pods": pods}).encode())
    assert run("--gateway", "shop/web", "--tag", "a") == 0
    assert [path for path, *_ in gateway.seen] == ["/gateways/shop/web/invalidate"]
    assert capsys.readouterr().out == (
        "       2  --tag a\n"
        "       2  in pod web-a, confirmed\n"
        "       0  in pod web-b, confirmed\n"
        "       0  in pod web-c, gone: it went\n"
    )


@pytest.mark.parametrize("pods", [3, [3], [{"name": "a"}], [{"name": "a", "result": "gone", "objects": "x"}]])
def test_answer_without_pods_as_they_are_is_none_of_an_operator(run, gateway, capsys, pods):
    gateway.answer = (200, json.dumps({"objects": [2], "pods": pods}).encode())
    assert run("--gateway", "shop/web", "--tag", "a") == 1
    captured = capsys.readouterr()
    assert captured.err.endswith(" answers, but not as a gateway; --address is that of the operator\n")
    assert captured.out == ""


@pytest.mark.parametrize("name", ["web", "/web", "shop/", "shop/web/x", "shop/we b", "a?/b"])
def test_gateway_that_is_no_name_is_rejected(run, gateway, capsys, name):
    with pytest.raises(SystemExit) as ended:
        run("--gateway", name, "--tag", "a")
    assert ended.value.code == 2
    assert f"{name!r} is not of the form namespace/name" in capsys.readouterr().err
    assert gateway.seen == []


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((401, b'{"error":"send a token"}'), " answered 401: send a token"),
        ((503, b'{"error":"varnishd does not run yet"}'), " answered 503: varnishd does not run yet"),
        ((200, b"ok"), " answers, but not as a gateway; --address is the gateway's health address"),
        ((404, b"404: Not Found"), " answers, but not as a gateway; --address is the gateway's health address"),
        ((200, b'{"objects":3}'), " answers, but not as a gateway; --address is the gateway's health address"),
        ((200, b'{"objects":[1,2]}'), " answers, but not as a gateway; --address is the gateway's health address"),
    ],
)
def test_what_is_not_confirmed_fails(run, gateway, capsys, answer, message):
    gateway.answer = answer
    assert run("--host", "a") == 1
    captured = capsys.readouterr()
    assert captured.err == f"vgw: 127.0.0.1:{gateway.server_port}{message}\n"
    assert captured.out == ""


def test_gateway_that_is_not_there_is_named(tmp_path, capsys):
    (tmp_path / "token").write_text(TOKEN)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        port = bound.getsockname()[1]
        assert main(["purge", "--address", f":{port}", "--token-file", str(tmp_path / "token"), "--host", "a"]) == 1
    assert f"no answer from 127.0.0.1:{port}: Connection refused; --address is" in capsys.readouterr().err


def test_gateway_that_does_not_answer_in_time_is_given_up(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(health_address, "ANSWER_SECONDS", 0.05)
    (tmp_path / "token").write_text(TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert main(["purge", "--address", address, "--token-file", str(tmp_path / "token"), "--everything"]) == 1
    assert f"no answer from {address}: timed out" in capsys.readouterr().err


@pytest.mark.parametrize(
    "url", ["tea.example/list", "ftp://tea.example/", "https:///list", "https://tee.example/grün", "https://a/b c"]
)
def test_url_that_no_client_requests_is_rejected(run, gateway, capsys, url):
    with pytest.raises(SystemExit) as ended:
        run(url)
    assert ended.value.code == 2
    assert repr(url) in capsys.readouterr().err
    assert gateway.seen == []


def test_nothing_to_purge_is_rejected(run, capsys):
    assert run() == 2
    assert capsys.readouterr().err.startswith("vgw: nothing to purge: ")


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), (b"", "something else than one token"), (b"a b", "something else"), (b"\xff", "text")],
)
def test_file_without_one_token_is_rejected(run, tmp_path, capsys, content, reason):
    (tmp_path / "token").unlink()
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    assert run("--host", "a") == 2
    error = capsys.readouterr().err
    assert error.startswith("vgw: --token-file: ")
    assert reason in error
