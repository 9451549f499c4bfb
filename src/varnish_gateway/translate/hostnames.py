"""Which hostnames of a route hold on a listener, and which hostnames cover others.

In:   a listener's hostname ("*" is any) and those of a route.
Out:  those of the route that meet the listener's, in its order; empty where there are none.

They are not cut down to the listener's: the listener is chosen by the host before any route is
looked at, and which of two routes goes first is decided by the hostnames that they have themselves.
"""

from collections.abc import Iterator, Sequence

ANY = "*"


def normal(hostname: str | None) -> str:
    """Return a hostname as we compare it; none at all is any."""
    return hostname.lower() if hostname else ANY


def meeting(listener: str, route: Sequence[str]) -> tuple[str, ...]:
    """Return the hostnames of a route that have hosts in common with a listener's."""
    own = dict.fromkeys(map(normal, route)) or (ANY,)
    return tuple(hostname for hostname in own if covers(listener, hostname) or covers(hostname, listener))


def covers(wide: str, narrow: str) -> bool:
    """Return whether every name that narrow matches is matched by wide. "*." spans many labels."""
    return wide in (ANY, narrow) or (wide.startswith("*.") and narrow.removeprefix("*").endswith(wide[1:]))


def wider(hostname: str) -> Iterator[str]:
    """Yield every other hostname that covers this one, the narrowest first."""
    labels = hostname.removeprefix("*.").split(".")
    yield from ("*." + ".".join(labels[at:]) for at in range(1, len(labels)))
    if hostname != ANY:
        yield ANY
