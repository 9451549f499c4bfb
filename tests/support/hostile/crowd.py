"""All clients and edits beside the ordinary traffic, hostile ones or well-behaved ones in their place.

In:   a HostileSite, and which threats to carry out.
Out:  how visits ended, by threat. ``python -m support.hostile.crowd`` is a crowd as a process.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, convert, to_builtins

from support.hostile.clients import Visits, crowds
from support.hostile.edits import EDITS, keep_editing
from support.hostile.site import HostileSite

THREATS = tuple(dict.fromkeys([*crowds(clients=1, every=1), *EDITS]))


class CrowdOrder(Struct, frozen=True, kw_only=True):
    """What to do: which threats, and whether they mean harm.

    So many clients hold connections in each way, and each opens another one ``every`` so many seconds.
    """

    site: HostileSite
    threats: Sequence[str]
    is_hostile: bool
    clients: int
    every: float
    start: float
    """When, by the machine's monotonic clock, which processes share."""
    seconds: float

    @property
    def words(self) -> tuple[str, ...]:
        """The command line of a process that carries it out."""
        text = json.dumps(to_builtins(self, enc_hook=str))
        return (sys.executable, "-m", "support.hostile.crowd", text)


async def carry_out(order: CrowdOrder) -> dict[str, Counter[str]]:
    """Visit and edit for the ordered time; return how visits ended, by threat."""
    found = crowds(clients=order.clients, every=order.every)
    chosen = {name: crowd for name, crowd in found.items() if name in order.threats}
    visits = {
        name: Visits(order.site.http, crowd, crowd.hostile if order.is_hostile else crowd.behaved)
        for name, crowd in chosen.items()
    }
    editing = [
        keep_editing(order.site, edits, edits.hostile if order.is_hostile else edits.behaved, order.start)
        for name, edits in EDITS.items()
        if name in order.threats
    ]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(order.start + order.seconds - time.perf_counter()):
            await asyncio.gather(*(one.run(order.start) for one in visits.values()), *editing)
    return {name: one.outcomes for name, one in visits.items()}


def main() -> None:
    order = convert(json.loads(sys.argv[1]), CrowdOrder, dec_hook=lambda kind, text: kind(text))
    print(json.dumps(asyncio.run(carry_out(order))))


if __name__ == "__main__":
    main()
