"""Arguments of ``vgw run``, and the directory that it works in; the rest is in tests/varnish."""

import pytest

from varnish_gateway.cli import run
from varnish_gateway.cli.main import main
from varnish_gateway.runtime.environment import Address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8081", Address("127.0.0.1", 8081)),
        (":8081", Address("", 8081)),
        ("[::1]:0", Address("::1", 0)),
    ],
)
def test_addresses(text, address):
    assert run._address(text) == address


@pytest.mark.parametrize("text", ["8081", "localhost", "localhost:", "localhost:http", "localhost:65536"])
def test_what_is_no_address_is_said(text, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", "--health-addr", text, "conf"])
    assert ended.value.code == 2
    assert f"argument --health-addr: {text!r} is not of the form host:port or :port" in capsys.readouterr().err


def test_a_temporary_work_dir_is_open_to_varnishd_and_goes(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with run._work_dir(None) as directory:
        assert directory.parent == tmp_path
        assert directory.stat().st_mode & 0o777 == 0o755
        (directory / "file").touch()
    assert not directory.exists()


def test_a_given_work_dir_is_kept_and_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "check_enterable", lambda *_: None)  # pytest keeps its directories to itself
    (tmp_path / "work").mkdir()
    with run._work_dir(run.Path("work")) as directory:
        assert directory == tmp_path / "work"
    assert directory.is_dir()
