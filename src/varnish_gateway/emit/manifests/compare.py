"""Whether an observed object holds everything of a desired manifest.

In:   an object as the API server gave it, and a manifest.
Out:  whether an apply would change nothing that we own. Additions of others do not count.
Pure. A field of ours that is no longer desired is not found here, but by the hash of what was applied.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from varnish_gateway.api.quantity import amount

QUANTITIES = frozenset({"divisor", "limits", "requests", "sizeLimit"})
"""Fields whose values are amounts, which the API server writes in a form of its own."""


def covers(observed: Any, desired: Any) -> bool:  # noqa: ANN401 - JSON
    """Return whether everything desired is there, in lists in any order."""
    return _covers(observed, desired, amounts=False)


def _covers(observed: Any, desired: Any, *, amounts: bool) -> bool:  # noqa: ANN401
    if isinstance(desired, Mapping):
        return _covers_mapping(observed, desired, amounts=amounts)
    if isinstance(desired, Sequence) and not isinstance(desired, str):
        return _covers_list(observed, desired)
    if not desired and observed is None:  # the API server leaves out what is empty, false or 0
        return True
    if isinstance(desired, bool) or isinstance(observed, bool):
        return observed is desired
    if isinstance(observed, Mapping | list):
        return False
    return str(observed) == str(desired) or (amounts and amount(observed) == amount(desired) is not None)


def _covers_mapping(observed: Any, desired: Mapping[str, Any], *, amounts: bool) -> bool:  # noqa: ANN401
    if not desired and observed is None:
        return True
    return isinstance(observed, Mapping) and all(
        _covers(observed.get(field), value, amounts=amounts or field in QUANTITIES) for field, value in desired.items()
    )


def _covers_list(observed: Any, desired: Sequence[Any]) -> bool:  # noqa: ANN401
    """Words are compared in their order, as in a command; objects are looked for in any place."""
    if not desired and observed is None:
        return True
    if not isinstance(observed, list):
        return False
    if not any(isinstance(item, Mapping) for item in desired):
        return len(observed) == len(desired) and all(map(covers, observed, desired))
    return len(observed) >= len(desired) and all(any(covers(there, item) for there in observed) for item in desired)
