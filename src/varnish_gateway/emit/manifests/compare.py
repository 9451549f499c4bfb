"""Whether a live object holds everything of a wanted manifest.

In:   an object as the API server gave it, and a manifest.
Out:  whether an apply would change nothing of what we want. What others added does not count.
Pure. That something of ours is still there which is not wanted any more can't be seen here;
the hash of what was applied tells that.
"""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

QUANTITIES = frozenset({"divisor", "limits", "requests", "sizeLimit"})
"""Fields whose values are amounts, which the API server writes in a form of its own."""
_SUFFIXES = {
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G"), -3)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("T", "P", "E"), 4)},
}
_QUANTITY = re.compile(
    r"(?P<number>[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,2})?)(?P<suffix>[KMGTPE]i|[numkMGTPE]|)", re.ASCII
)


def covers(live: Any, wanted: Any) -> bool:  # noqa: ANN401 - JSON
    """Return whether everything wanted is there, in lists in any order."""
    return _covers(live, wanted, amounts=False)


def _covers(live: Any, wanted: Any, *, amounts: bool) -> bool:  # noqa: ANN401
    if isinstance(wanted, Mapping):
        return _covers_mapping(live, wanted, amounts=amounts)
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return _covers_list(live, wanted)
    if not wanted and live is None:  # the API server leaves out what is empty, false or 0
        return True
    if isinstance(wanted, bool) or isinstance(live, bool):
        return live is wanted
    if isinstance(live, Mapping | list):
        return False
    return str(live) == str(wanted) or (amounts and _amount(live) == _amount(wanted) is not None)


def _covers_mapping(live: Any, wanted: Mapping[str, Any], *, amounts: bool) -> bool:  # noqa: ANN401
    if not wanted and live is None:
        return True
    return isinstance(live, Mapping) and all(
        _covers(live.get(field), value, amounts=amounts or field in QUANTITIES) for field, value in wanted.items()
    )


def _covers_list(live: Any, wanted: Sequence[Any]) -> bool:  # noqa: ANN401
    """Words are compared in their order, as in a command; objects are looked for in any place."""
    if not wanted and live is None:
        return True
    if not isinstance(live, list):
        return False
    if not any(isinstance(item, Mapping) for item in wanted):
        return len(live) == len(wanted) and all(map(covers, live, wanted))
    return len(live) >= len(wanted) and all(any(covers(there, item) for there in live) for item in wanted)


def _amount(value: Any) -> Fraction | None:  # noqa: ANN401
    """Return a quantity as a number: "500m" is a half, "1Ki" is 1024, "1e3" is 1000."""
    found = _QUANTITY.fullmatch(str(value))
    return Fraction(found["number"]) * _SUFFIXES[found["suffix"]] if found else None
