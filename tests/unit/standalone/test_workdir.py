"""The working directory of ``vgw run``."""

from pathlib import Path

from varnish_gateway.standalone import workdir
from varnish_gateway.standalone.workdir import work_directory


def test_temporary_directory_is_open_to_varnishd_and_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with work_directory(None) as directory:
        assert directory.parent == tmp_path
        assert directory.stat().st_mode & 0o777 == 0o755
        (directory / "file").touch()
    assert not directory.exists()


def test_given_directory_is_kept_and_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workdir, "check_enterable", lambda *_: None)  # pytest's directories are private
    (tmp_path / "work").mkdir()
    with work_directory(Path("work")) as directory:
        assert directory == tmp_path / "work"
    assert directory.is_dir()
