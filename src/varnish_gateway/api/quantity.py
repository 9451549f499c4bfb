"""Amounts as Kubernetes writes them.

In:   text such as "512Mi", or a number.
Out:  the amount, None for anything else.
"""

import re
from fractions import Fraction

_SUFFIXES = {
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G"), -3)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("T", "P", "E"), 4)},
}
_QUANTITY = re.compile(
    r"(?P<number>[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,2})?)(?P<suffix>[KMGTPE]i|[numkMGTPE]|)", re.ASCII
)


def amount(value: object) -> Fraction | None:
    """Return a quantity as a number: "500m" is a half, "1Ki" is 1024, "1e3" is 1000."""
    found = _QUANTITY.fullmatch(str(value))
    return Fraction(found["number"]) * _SUFFIXES[found["suffix"]] if found else None
