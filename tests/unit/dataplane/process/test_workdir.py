import os

import pytest

from varnish_gateway import errors
from varnish_gateway.dataplane.process import workdir
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.settings import Settings


def settings(work_dir, **more):
    return Settings(work_dir=work_dir, sockets=parse_listen(""), **more)


@pytest.fixture
def enterable(tmp_path, monkeypatch):
    """Give a directory that everybody may enter, all the way down."""
    monkeypatch.setattr(workdir, "check_enterable", lambda *_: None)
    return tmp_path


def test_the_secret_is_ours_alone_and_new_every_time(enterable):
    first = workdir.prepare(settings(enterable / "w"))
    assert first.secret_path.stat().st_mode & 0o777 == 0o600
    assert first.secret_path.read_bytes() == first.secret
    assert workdir.prepare(settings(enterable / "w")).secret != first.secret


def test_the_vmod_is_copied_where_varnishd_can_read_it(enterable, monkeypatch):
    vmod = enterable / "somewhere.so"
    vmod.write_bytes(b"elf")
    vmod.chmod(0o600)
    monkeypatch.setenv("VGW_VMOD", str(vmod))
    layout = workdir.prepare(settings(enterable / "w"))
    copy = layout.vmod_dir / "libvmod_ghost.so"
    assert copy.read_bytes() == b"elf"
    assert copy.stat().st_mode & 0o777 == 0o644


def test_missing_vmod_is_reported(monkeypatch):
    monkeypatch.setenv("VGW_VMOD", "/nowhere/x.so")
    with pytest.raises(errors.BadSettings, match=r"VGW_VMOD: there is no file /nowhere/x\.so"):
        workdir.find_vmod()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands work to other users")
def test_directory_that_varnishd_may_not_enter_is_reported(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(errors.BadSettings, match=rf"WORK_DIR: .*may not enter {closed}.*chmod o\+x"):
        workdir.check_enterable(closed, "WORK_DIR")


def test_files_are_replaced_in_one_step_and_readable(tmp_path):
    path = tmp_path / "x"
    workdir.write_readable(path, b"1")
    workdir.write_readable(path, b"2")
    assert path.read_bytes() == b"2"
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]
