"""The quota of listeners: all listeners of a Gateway travel in one object, and each port is a socket of its pods.

In:   the limit in bytes, and the listeners of ListenerSets in the order in which they count.
Out:  the ListenerSets whose listeners don't fit.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from varnish_gateway.translate.incremental.dependency import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from varnish_gateway.api import Key
    from varnish_gateway.translate.listener import ValidatedListener

LISTENER_BYTES = 100
"""The size of a listener on the wire, without its name and hostname."""
NAMESPACES = 4
"""The quota of listeners, divided by this, is what one namespace may take."""

SURPLUS_SETS: Table[frozenset[Key]] = Table("ListenerSets over quota")
"""By Gateway: the ListenerSets whose listeners don't fit. See over_quota.py."""


def exceeding(limit: int, sets: Iterable[tuple[Key, Sequence[ValidatedListener]]]) -> frozenset[Key]:
    """Return the ListenerSets that don't fit.

    A namespace has a part of the quota, so that one tenant leaves some of it to the others.
    """
    left = limit
    taken: Counter[str] = Counter()
    found: set[Key] = set()
    for key, listeners in sets:
        size = sum(LISTENER_BYTES + len(one.id) + len(one.hostname) for one in listeners)
        if size > left or size + taken[key.namespace] > limit // NAMESPACES:
            found.add(key)
        else:
            left -= size
            taken[key.namespace] += size
    return frozenset(found)
