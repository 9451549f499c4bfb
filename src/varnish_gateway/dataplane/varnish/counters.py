"""varnishd's own counters.

In:   varnishd's directory.
Out:  values by name, as varnishstat names them; None where they can't be had: no varnishd, no varnishstat.
"""

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

SECONDS = 2.0
STORES = ("SMA", "SMF")
"""What varnishd calls stores in memory and in files."""
_FIELDS = ("MAIN.n_object", "MAIN.n_expired", "MAIN.n_lru_nuked", "MAIN.n_lru_limited", *(f"{s}.*" for s in STORES))


class _Counter(Struct, frozen=True):
    value: int


class _Counters(Struct, frozen=True):
    counters: dict[str, _Counter]


async def read_counters(varnish_dir: Path) -> Mapping[str, int] | None:
    """Return the counters of the cache."""
    fields = (word for field in _FIELDS for word in ("-f", field))
    try:
        process = await asyncio.create_subprocess_exec(
            *("varnishstat", "-1", "-j", "-n", str(varnish_dir), *fields), stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL
        )
    except OSError:
        return None
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return parse(output)


def parse(output: bytes) -> Mapping[str, int] | None:
    """Return the values of varnishstat's JSON."""
    try:
        document = msgspec.json.decode(output, type=_Counters)
    except msgspec.DecodeError:
        return None
    return {name: counter.value for name, counter in document.counters.items()}
