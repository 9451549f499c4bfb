import os

from varnish_gateway.kube.connection import Connection
from varnish_gateway.kube.credentials import Credentials


def credentials(**how) -> Credentials:
    return Credentials(Connection(server="https://x", ssl=None, **how), "vgw/1")


def test_fixed_token_is_sent():
    headers = credentials(token="t").headers("application/json")
    assert headers["Authorization"] == "Bearer t"
    assert headers["User-Agent"] == "vgw/1"
    assert headers["Content-Type"] == "application/json"
    assert "Content-Type" not in credentials(token="t").headers()


def test_no_token_sends_no_header():
    assert "Authorization" not in credentials().headers()


def test_headers_are_built_once():
    made = credentials(token="t")
    assert made.headers("a") is made.headers("a")


def test_changed_token_file_is_read_again(tmp_path):
    file = tmp_path / "token"
    file.write_text("one\n")
    made = credentials(token_file=file)
    assert made.headers()["Authorization"] == "Bearer one"
    file.write_text("two\n")
    os.utime(file, ns=(1, 1))
    assert made.headers()["Authorization"] == "Bearer two"


def test_rejected_token_is_read_again(tmp_path):
    file = tmp_path / "token"
    file.write_text("one")
    os.utime(file, ns=(1, 1))
    made = credentials(token_file=file)
    made.headers()
    file.write_text("two")
    os.utime(file, ns=(1, 1))
    assert made.headers()["Authorization"] == "Bearer one"
    made.forget()
    assert made.headers()["Authorization"] == "Bearer two"


def test_deleted_token_file_leaves_the_last_token(tmp_path, caplog):
    file = tmp_path / "token"
    file.write_text("one")
    made = credentials(token_file=file)
    made.headers()
    file.unlink()
    assert made.headers()["Authorization"] == "Bearer one"
    assert "can't read the token file" in caplog.text
