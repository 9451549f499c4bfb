import msgspec
import pytest

from support.varnish.tls import pair, tls
from varnish_gateway.chaperone.last_good import LastGood, SavedConfiguration
from varnish_gateway.dataplane.change import InForce
from varnish_gateway.dataplane.ghost.files import GhostFiles
from varnish_gateway.ir import Tls, wire

TEA = (wire.Endpoint(address="10.0.0.1", port=80),)
MILK = (wire.Endpoint(address="10.0.0.2", port=80),)
ROUTING = {0: b'{"version":2}', 1: b'{"version":2,"shard":1,"shards":2}'}


def in_force(pools=None, routing=None, vcl="vcl 4.1;", generation="3", certificates=None):
    files = GhostFiles()
    files.update(routing or ROUTING, pools or {"n/tea:80": TEA})
    return InForce(vcl, files.bundle(), generation, certificates)


@pytest.fixture
def place(tmp_path):
    return tmp_path / "last"


def names(place):
    return {path.name for path in place.iterdir()}


def test_empty_directory_has_no_configuration(place):
    assert LastGood(place, "n/gw").load() is None


def test_saved_configuration_is_loaded(place):
    LastGood(place, "n/gw").save(in_force())
    assert LastGood(place, "n/gw").load() == SavedConfiguration("vcl 4.1;", ROUTING, {"n/tea:80": TEA}, "3")


def test_the_newest_is_found_and_nothing_else_stays(place):
    last = LastGood(place, "n/gw")
    last.save(in_force())
    before = names(place)
    last.save(in_force({"n/tea:80": MILK}, vcl="vcl 4.1; # two", generation="4"))
    assert len(names(place)) == len(before)
    assert LastGood(place, "n/gw").load() == SavedConfiguration("vcl 4.1; # two", ROUTING, {"n/tea:80": MILK}, "4")


def test_only_changed_files_are_written(place):
    last = LastGood(place, "n/gw")
    last.save(in_force())
    stamps = {path.name: path.stat().st_mtime_ns for path in place.iterdir()}
    last.save(in_force({"n/tea:80": MILK}))
    again = {path.name: path.stat().st_mtime_ns for path in place.iterdir()}
    assert {name for name in again if name.startswith(("routing", "main"))} <= stamps.keys()
    assert all(again[name] == stamps[name] for name in again if name.startswith(("routing", "main")))


def test_the_same_again_writes_nothing(place):
    last = LastGood(place, "n/gw")
    last.save(in_force())
    stamp = (place / "last.json").stat().st_ino
    last.save(in_force())
    assert (place / "last.json").stat().st_ino == stamp


def test_restarted_process_loads_the_saved_configuration(place):
    LastGood(place, "n/gw").save(in_force())
    kept = {path.name: path.stat().st_ino for path in place.iterdir() if path.name != "last.json"}
    second = LastGood(place, "n/gw")
    second.load()
    second.save(in_force(generation="4"))
    assert {path.name: path.stat().st_ino for path in place.iterdir() if path.name != "last.json"} == kept


def test_configuration_of_another_configmap_is_ignored(place):
    LastGood(place, "n/gw").save(in_force())
    other = LastGood(place, "n/other")
    assert other.load() is None
    assert names(place) == set()


@pytest.mark.parametrize("damage", [b"", b"{half", b'{"version": 9}'])
def test_names_that_are_damaged_are_no_configuration(place, damage):
    LastGood(place, "n/gw").save(in_force())
    (place / "last.json").write_bytes(damage)
    assert LastGood(place, "n/gw").load() is None


@pytest.mark.parametrize("kind", ["routing-0", "endpoints-0", "main"])
@pytest.mark.parametrize("damage", ["lost", "cut"])
def test_damaged_content_discards_the_configuration_until_the_next_save(place, kind, damage):
    LastGood(place, "n/gw").save(in_force())
    (path,) = place.glob(f"{kind}-*")
    if damage == "lost":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    last = LastGood(place, "n/gw")
    assert last.load() is None
    last.save(in_force())
    assert LastGood(place, "n/gw").load() is not None


def test_saved_certificates_are_readable_by_their_owner_alone(place):
    last = LastGood(place, "n/gw")
    one, other = tls(443, (pair("tea"), ["tea"]), clients="friends"), tls(443, (pair("milk"), ["tea"]))
    last.save(in_force(certificates=one))
    assert LastGood(place, "n/gw").load().tls == one
    assert {path.stat().st_mode & 0o777 for path in place.glob("*.pem")} == {0o600}
    last.save(in_force(certificates=other))
    assert len([*place.glob("*.pem")]) == 1
    assert LastGood(place, "n/gw").load().tls == other
    again = LastGood(place, "n/gw")
    again.load()
    again.save(in_force(certificates=None, generation="4"))
    assert LastGood(place, "n/gw").load().tls == other, "nothing is known yet"
    last.save(in_force(certificates=Tls()))
    assert [*place.glob("*.pem")] == []
    assert LastGood(place, "n/gw").load().tls == Tls()


def test_damaged_certificate_on_disk_discards_the_configuration(place):
    LastGood(place, "n/gw").save(in_force(certificates=tls(443, (pair("tea"), ["tea"]))))
    (path,) = place.glob("*.pem")
    path.write_bytes(path.read_bytes()[:-1])
    assert LastGood(place, "n/gw").load() is None


def test_names_of_other_places_are_not_read(place):
    LastGood(place, "n/gw").save(in_force())
    path = place / "last.json"
    path.write_bytes(path.read_bytes().replace(b'"vcl":"main', b'"vcl":"../main'))
    assert LastGood(place, "n/gw").load() is None


def test_full_disk_is_logged_and_retried(place, caplog):
    last = LastGood(place, "n/gw")
    blocked = place / ".last.json.partial"
    blocked.mkdir()
    last.save(in_force())
    assert "can't keep the last configuration" in caplog.text
    blocked.rmdir()
    last.save(in_force())
    assert LastGood(place, "n/gw").load() is not None


def test_file_that_can_not_be_removed_is_only_logged(place, caplog):
    last = LastGood(place, "n/gw")
    last.save(in_force())
    (old,) = place.glob("main-*")
    old.unlink()
    old.mkdir()
    last.save(in_force(vcl="vcl 4.1; # other"))
    assert "can't keep the last configuration" in caplog.text
    assert LastGood(place, "n/gw").load().vcl == "vcl 4.1; # other"
    assert "can't clean up" in caplog.text


def test_saved_file_is_json_that_names_its_owner(place):
    LastGood(place, "n/gw").save(in_force())
    assert msgspec.json.decode((place / "last.json").read_bytes())["owner"] == "n/gw"
