"""Which listeners with TLS have hostnames that overlap.

In:   the listeners of one Gateway, those of its ListenerSets included.
Out:  the ids of those that share hosts with another one on their port.
A client may reuse the connection that it has to one of them for a host of the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway.translate import hostnames

if TYPE_CHECKING:
    from collections.abc import Iterable

    from varnish_gateway.translate.listener import ValidatedListener


def overlapping(listeners: Iterable[ValidatedListener]) -> frozenset[str]:
    """Return the listeners whose hostname is within another one's of the port, and those others."""
    places = {(one.port, one.hostname): one.id for one in listeners if one.scheme == "https"}
    pairs = (
        (narrow, places[port, wide])
        for (port, hostname), narrow in places.items()
        for wide in hostnames.wider(hostname)
        if (port, wide) in places
    )
    return frozenset(each for pair in pairs for each in pair)
