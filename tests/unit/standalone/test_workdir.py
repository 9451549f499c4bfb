"""The working directory of ``vgw run``."""

from pathlib import Path

from varnish_gateway.dataplane.process.lock import LOCK_FILE
from varnish_gateway.dataplane.tls.store import PID_FILE
from varnish_gateway.standalone import workdir
from varnish_gateway.standalone.workdir import work_directory


def test_temporary_directory_is_open_to_varnishd_and_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with work_directory(None) as directory:
        assert directory.parent == tmp_path
        assert directory.stat().st_mode & 0o777 == 0o755
        (directory / "file").touch()
    assert not directory.exists()


def test_temporary_directory_of_a_killed_process_is_deleted_at_the_next_start(tmp_path, monkeypatch):
    """It may hold private keys."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left, other = tmp_path / f"{workdir.PREFIX}left", tmp_path / "other"
    for directory in (left, other):
        directory.mkdir()
        (directory / LOCK_FILE).write_text("1 vgw run\n")
        (directory / "key.pem").touch()
    with work_directory(None) as running, work_directory(None):
        assert not left.exists()
        assert other.exists()
        assert running.exists(), "its process lives"


def test_keys_of_a_killed_process_are_deleted_from_the_given_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(workdir, "check_enterable", lambda *_: None)
    keys = tmp_path / "default.cafe" / "tls"
    keys.mkdir(parents=True)
    (keys / "key.pem").touch()
    (keys / PID_FILE).touch()
    with work_directory(tmp_path):
        assert [path.name for path in keys.iterdir()] == [PID_FILE]


def test_given_directory_is_kept_and_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workdir, "check_enterable", lambda *_: None)  # pytest's directories are private
    (tmp_path / "work").mkdir()
    with work_directory(Path("work")) as directory:
        assert directory == tmp_path / "work"
    assert directory.is_dir()
