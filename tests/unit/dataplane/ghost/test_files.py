import msgspec
from hypothesis import given
from hypothesis import strategies as st

from varnish_gateway.dataplane.ghost.files import POOLS_PER_SHARD, GhostFiles
from varnish_gateway.ir import wire

ONE = (wire.Endpoint(address="10.0.0.1", port=80),)
TWO = (wire.Endpoint(address="10.0.0.2", port=80),)


def pools_in(bundle):
    manifest = msgspec.json.decode(bundle.manifest, type=wire.Manifest)
    assert set(bundle.files) == {*manifest.routing, *manifest.endpoints}
    pools = {}
    for name in manifest.endpoints:
        pools |= msgspec.json.decode(bundle.files[name], type=wire.Endpoints).pools
    return pools


def test_routing_passes_through_byte_for_byte():
    files = GhostFiles()
    files.update({0: b'{"version": 2}', 1: b"x"}, {})
    files.update({1: None}, {})
    assert list(files.bundle().files.values()) == [b'{"version": 2}']


def test_the_same_content_is_the_same_configuration():
    files = GhostFiles()
    files.update({0: b"a"}, {"n/s:80": ONE})
    before = files.bundle()
    files.update({0: b"b"}, {"n/s:80": TWO})
    assert files.bundle().id != before.id
    files.update({0: b"a"}, {"n/s:80": ONE})
    assert files.bundle() == before


def test_one_pool_changes_one_file_among_many():
    files = GhostFiles()
    files.update({}, {f"n/s{number}:80": ONE for number in range(20 * POOLS_PER_SHARD)})
    before = files.bundle()
    assert 10 <= len(before.files) <= 40
    files.update({}, {"n/s7:80": TWO})
    assert len(files.bundle().files.keys() - before.files.keys()) == 1


@given(st.lists(st.dictionaries(st.integers(0, 300), st.sampled_from([ONE, TWO, (), None]), max_size=150), max_size=6))
def test_every_pool_is_written_once_after_any_history(history):
    files, expected = GhostFiles(), {}
    for change in history:
        named = {f"n/s{number}:80": pool for number, pool in change.items()}
        files.update({}, named)
        expected |= named
    assert pools_in(files.bundle()) == {name: pool for name, pool in expected.items() if pool is not None}
