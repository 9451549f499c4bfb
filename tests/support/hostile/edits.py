"""Edits of a tenant that means harm, and ordinary edits that come as often in their place.

In:   a HostileSite.
Out:  Edits: what the n-th edit writes.
"""

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

from support.hostile.site import HostileSite, certificate
from support.varnish.tls import Pair

Edit = Callable[[HostileSite, int], None]
"""Makes the edit of this number."""
MOST_MATCHES = 64
"""In one rule of a route."""


@dataclass(frozen=True)
class Edits:
    """An edit ``every`` so many seconds."""

    every: float
    hostile: Edit
    behaved: Edit


async def keep_editing(site: HostileSite, edits: Edits, edit: Edit, start: float) -> None:
    """Make one edit after the other, each when it is due."""
    for number in itertools.count(1):
        await asyncio.sleep(start + number * edits.every - time.perf_counter())
        edit(site, number)


def _costly_patterns(site: HostileSite, number: int) -> None:
    """Write patterns that no edit had before: as many as a route may have, and every other time many more."""
    pattern = "/{}/.*[a-z]{{1,300}}x{}" if number % 2 else "/{}/[a-z]+/v[0-9]+/.*{}"
    site.write_patterns([pattern.format(number, place) for place in range(MOST_MATCHES)])


def _cheap_patterns(site: HostileSite, number: int) -> None:
    site.write_patterns([f"/api/{number}/v[0-9]+"])


def _flip_port(site: HostileSite, number: int) -> None:
    """Open a port and close it again; every other time it is another one."""
    site.write_listeners(site.flipping[number // 2 % len(site.flipping)] if number % 2 else site.http)


def _rename_host(site: HostileSite, number: int) -> None:
    site.write_listeners(site.http, f"flip-{number}.hostile.test")


def _break_or_mend(site: HostileSite, number: int) -> None:
    """Write a certificate that is cut off, one with a foreign key, and a good one."""
    good, foreign = certificate(number % 2), certificate(1 - number % 2)
    broken = {1: Pair(good.certificate[:-90], good.key), 2: Pair(good.certificate, foreign.key)}
    site.write_certificate(broken.get(number % 3, good))


def _rotate(site: HostileSite, number: int) -> None:
    site.write_certificate(certificate(number % 2))


EDITS = {
    "regexes": Edits(1.0, _costly_patterns, _cheap_patterns),
    "port flips": Edits(1.0, _flip_port, _rename_host),
    "broken certificates": Edits(0.5, _break_or_mend, _rotate),
}
