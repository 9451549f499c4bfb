"""The size of the cache, where it is a share of memory.

In:   varnishd's stores, and how much memory there is.
Out:  stores with a size in bytes, as varnishd knows them.

The rest of the memory is for what varnishd keeps beside the objects: about 1 KB for each of them, requests in
progress, threads, its log.
"""

import re

from varnish_gateway.api.quantity import amount
from varnish_gateway.dataplane.process.memory import Memory
from varnish_gateway.ir import pod
from varnish_gateway.ir.stores import DEFAULT_SHARE

COUNTED_MEMORY = 2 * 2**30
"""How much memory of a machine counts at most, unless a user gives a size: it may have several gateways, and other
tasks."""
DEFAULT_STORE = f"malloc,{DEFAULT_SHARE}"
_SHARE = re.compile(r"(.*\bmalloc),(\d{1,2})%")
_MEBIBYTE = 2**20


def memory_of_a_pod(memory: Memory, request: int | None) -> int:
    """Return the limit, without one the request, and without either what a pod requests by default."""
    return memory.limit or request or int(amount(pod.DEFAULT_MEMORY) or 0)


def memory_of_a_machine(memory: Memory) -> int:
    """Return the limit, without one all that the machine has."""
    return memory.limit or memory.physical or int(amount(pod.DEFAULT_MEMORY) or 0)


def default_store_of_a_machine(memory: Memory) -> str:
    """Return the store of a gateway without a size of its own."""
    return sized(DEFAULT_STORE, min(memory_of_a_machine(memory), COUNTED_MEMORY))


def sized(store: str, memory: int) -> str:
    """Return the store with a share of the memory in whole mebibytes; a store with another size as it is."""
    if (found := _SHARE.fullmatch(store)) is None:
        return store
    mebibytes = memory * int(found[2]) // 100 // _MEBIBYTE
    return f"{found[1]},{max(mebibytes, 1)}m"
