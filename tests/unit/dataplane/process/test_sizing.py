import pytest

from varnish_gateway.dataplane.process.memory import Memory
from varnish_gateway.dataplane.process.sizing import (
    default_store_of_a_machine,
    memory_of_a_machine,
    memory_of_a_pod,
    sized,
)

GI = 2**30


@pytest.mark.parametrize(
    ("memory", "request_", "expected"),
    [
        (Memory(limit=4 * GI, physical=64 * GI), 2 * GI, 4 * GI),
        (Memory(physical=64 * GI), 2 * GI, 2 * GI),
        (Memory(physical=64 * GI), None, GI // 2),
    ],
    ids=["limit", "request", "neither"],
)
def test_memory_of_a_pod_is_never_that_of_the_node(memory, request_, expected):
    assert memory_of_a_pod(memory, request_) == expected


@pytest.mark.parametrize(
    ("memory", "total", "store"),
    [
        (Memory(physical=64 * GI), 64 * GI, "malloc,1024m"),
        (Memory(limit=8 * GI, physical=64 * GI), 8 * GI, "malloc,1024m"),
        (Memory(limit=GI, physical=64 * GI), GI, "malloc,512m"),
        (Memory(), GI // 2, "malloc,256m"),
    ],
    ids=["machine", "large limit", "limit", "not known"],
)
def test_default_of_a_machine_is_capped(memory, total, store):
    assert memory_of_a_machine(memory) == total
    assert default_store_of_a_machine(memory) == store


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        ("malloc,50%", "malloc,512m"),
        ("hot=malloc,7%", "hot=malloc,71m"),
        ("malloc,4g", "malloc,4g"),
        ("malloc", "malloc"),
        ("file,/d,50%", "file,/d,50%"),
    ],
)
def test_only_a_share_of_memory_is_sized(store, expected):
    assert sized(store, GI) == expected


def test_a_tiny_share_is_a_size_that_varnishd_accepts():
    assert sized("malloc,1%", 2**20) == "malloc,1m"
