"""Which requests a stored response fits (RFC 9111, section 4.1).

In:   the request that a response was stored for, the response, and a new request.
Out:  yes, no, or "may": a cache that knows what a field means may see two values as one.
"""

from enum import Enum

from support.cache_model.messages import Request, Response
from support.cache_model.syntax import members

_NEGOTIATED = {"accept", "accept-charset", "accept-encoding", "accept-language"}


class Fit(Enum):
    YES = "yes"
    MAY = "may"
    NO = "no"


def fit(stored_for: Request, response: Response, request: Request) -> Fit:
    nominated = [name.lower() for name in members(response.combined("vary") or "")]
    if "*" in nominated:
        return Fit.NO
    fits = {_fit_of_field(name, stored_for, request) for name in nominated}
    return next((worst for worst in (Fit.NO, Fit.MAY) if worst in fits), Fit.YES)


def _fit_of_field(name: str, one: Request, other: Request) -> Fit:
    first, second = one.combined(name), other.combined(name)
    if first is None or second is None or first == second:
        return Fit.YES if first == second else Fit.NO
    if members(first) == members(second):
        return Fit.MAY  # they differ in whitespace, which not every field allows
    return Fit.MAY if name in _NEGOTIATED and _meaning(first) == _meaning(second) else Fit.NO


def _meaning(value: str) -> list[tuple[str, float]]:
    """Return a list of weighted members: their order, case and spelling are irrelevant."""
    return sorted(map(_weighted, members(value.lower())))


def _weighted(member: str) -> tuple[str, float]:
    name, *parameters = [part.strip(" \t") for part in member.split(";")]
    weights = [part[2:] for part in parameters if part.startswith("q=")]
    others = [part for part in parameters if not part.startswith("q=")]
    return ";".join([name, *others]), float(weights[0]) if weights else 1.0
