"""Which hostnames of a route hold on a listener.

In:   a listener's hostname ("*" is any) and those of a route.
Out:  the intersection, in the route's order; empty where they have nothing in common.
"""

from collections.abc import Sequence

ANY = "*"


def normal(hostname: str | None) -> str:
    """Return a hostname as we compare it; none at all is any."""
    return hostname.lower() if hostname else ANY


def intersect(listener: str, route: Sequence[str]) -> tuple[str, ...]:
    """Return the hostnames that both a listener and a route take."""
    if not route:
        return (listener,)
    common = (_narrower(listener, normal(hostname)) for hostname in route)
    return tuple(dict.fromkeys(hostname for hostname in common if hostname is not None))


def _narrower(one: str, other: str) -> str | None:
    if covers(one, other):
        return other
    return one if covers(other, one) else None


def covers(wide: str, narrow: str) -> bool:
    """Return whether every name that narrow takes is taken by wide. "*." spans many labels."""
    return wide in (ANY, narrow) or (wide.startswith("*.") and narrow.removeprefix("*").endswith(wide[1:]))
