"""Where varnishd stores objects, in the words of its argument -s.

In:   the storage of a class, and arguments of varnishd.
Out:  words such as "malloc,50%"; the sizes of the stores of a command line, for ghost. A share of memory stays a
share here: only the data plane knows how much memory it has (``dataplane.process.sizing``).
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePath

from varnish_gateway.api.quantity import amount
from varnish_gateway.api.varnish import StorageParameters

MEMORY = "Memory"
FILE = "File"
KINDS = (MEMORY, FILE)
DEFAULT_SHARE = "50%"
_TRANSIENT = "Transient="
_SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([kmgtp]?)b?\s*", re.IGNORECASE)
_IN_MEMORY = ("malloc", "umem", "default")


def names_a_store(extra_args: Sequence[str]) -> bool:
    """Whether arguments name a store beside the Transient one; it replaces ours."""
    return any(not store.startswith(_TRANSIENT) for store in _named(extra_args))


def _named(extra_args: Sequence[str]) -> Iterator[str]:
    for option, word in pairwise(("", *extra_args)):
        if option == "-s":
            yield word
        elif word.startswith("-s") and word != "-s":
            yield word.removeprefix("-s")


def sizes(arguments: Sequence[str]) -> str:
    """Return the bytes of each store of a command line, such as "s0=8388608,disk=1073741824".

    A store is left out if its words have no size: it is without a limit, or as large as a file that exists.
    """
    found = []
    unnamed = 0
    for words in _named(arguments):
        name, _, store = words.partition("=")
        if not store or "," in name:
            name, store, unnamed = f"s{unnamed}", words, unnamed + 1  # as varnishd numbers them
        kind, *details = store.split(",")
        found += [f"{name}={size}" for size in _sizes(details if kind in _IN_MEMORY else details[1:])]
    return ",".join(found)


def _sizes(details: Sequence[str]) -> Iterator[int]:
    """Give the bytes of a size that comes first, as varnishd reads it."""
    if details and (found := _SIZE.fullmatch(details[0])) is not None:
        yield int(float(found[1]) * 1024 ** " kmgtp".index(found[2].lower() or " "))


def is_share_of_memory(storage: StorageParameters) -> bool:
    """Whether the size depends on how much memory there is."""
    return storage.type == MEMORY and (not storage.size or storage.size.endswith("%"))


def store(storage: StorageParameters, directory: str | PurePath) -> str:
    """Return the store; a file is in the directory, without a name: varnishd removes it when it has opened it."""
    if is_share_of_memory(storage):
        return f"malloc,{storage.size or DEFAULT_SHARE}"
    return f"malloc,{size(storage)}" if storage.type == MEMORY else f"file,{directory},{size(storage)}"


def size(storage: StorageParameters) -> int:
    """Return the bytes of a validated size that is no share."""
    return int(amount(storage.size) or 0)
