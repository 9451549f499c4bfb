import pytest

from varnish_gateway.api.varnish import StorageParameters
from varnish_gateway.ir.stores import is_share_of_memory, names_a_store, sizes, store


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), False),
        (("-p", "a=b"), False),
        (("-s", "malloc,1g"), True),
        (("-smalloc,1g",), True),
        (("-s", "Transient=malloc,1g"), False),
        (("-sTransient=malloc,1g",), False),
        (("-s", "Transient=malloc,1g", "-s", "disk=file,/d,1g"), True),
    ],
)
def test_transient_store_is_no_store_of_the_cache(words, named):
    assert names_a_store(words) is named


@pytest.mark.parametrize(
    ("storage", "word", "is_share"),
    [
        (StorageParameters(), "malloc,50%", True),
        (StorageParameters(size="60%"), "malloc,60%", True),
        (StorageParameters(size="1.5Gi"), "malloc,1610612736", False),
        (StorageParameters(type="File", size="2G"), "file,/d,2000000000", False),
    ],
)
def test_storage_becomes_a_store(storage, word, is_share):
    assert store(storage, "/d") == word
    assert is_share_of_memory(storage) is is_share


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), ""),
        (("-F", "-s", "malloc,1g", "-p", "a=b"), "s0=1073741824"),
        (("-s", "malloc,512"), "s0=512"),
        (("-s", "file,/a=b,1.5M"), "s0=1572864"),
        (("-sdefault,2 kb", "-s", "disk=file,/d,1G,4k,random"), "s0=2048,disk=1073741824"),
        (("-s", "big=malloc,1T", "-smalloc", "-s", "malloc,16m"), "big=1099511627776,s1=16777216"),
        (("-s", "Transient=malloc,1P"), "Transient=1125899906842624"),
        (("-s", "malloc"), ""),
        (("-s", "file,/d"), ""),
        (("-s", "malloc,1x"), ""),
        (("-S", "malloc,1m"), ""),
    ],
)
def test_sizes_are_known_by_the_names_that_varnishd_gives_to_stores(words, expected):
    assert sizes(words) == expected
