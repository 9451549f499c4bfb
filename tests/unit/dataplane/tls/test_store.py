import pytest

from support.varnish.tls import Pair, pair
from varnish_gateway import errors
from varnish_gateway.dataplane.tls.store import PID_FILE, HaproxyFiles


@pytest.fixture
def store(tmp_path):
    (tmp_path / "tls").mkdir()
    (tmp_path / "tls" / "old.pem").write_bytes(b"old")
    return HaproxyFiles(tmp_path / "tls")


def names(store):
    return {path.name for path in store.directory.iterdir()}


def test_directory_holds_the_desired_files_alone_for_their_owner(store):
    assert names(store) == set()
    store.write({"a": b"1", "b": b"2"})
    inode = (store.directory / "a").stat().st_ino
    store.write({"a": b"1", "c": b"3"})
    assert names(store) == {"a", "c"}
    assert (store.directory / "a").stat().st_ino == inode
    assert {path.stat().st_mode & 0o777 for path in store.directory.iterdir()} == {0o600}
    assert store.directory.stat().st_mode & 0o777 == 0o700


def test_removed_files_leave_no_key_behind_and_are_written_again(store):
    store.write({"a": b"1"})
    (store.directory / PID_FILE).touch()
    store.remove()
    assert names(store) == {PID_FILE}, "it finds a HAProxy that was left behind"
    store.write({"a": b"1"})
    assert names(store) == {"a", PID_FILE}


def test_key_that_does_not_match_is_rejected_and_the_check_leaves_no_file(store):
    store.check(pair("tea").content)
    with pytest.raises(errors.BadDocument, match="key values mismatch"):
        store.check(Pair(pair("tea").certificate, pair("milk").key).content)
    assert names(store) == set()
