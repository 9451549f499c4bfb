"""Durations in manifests.

In:   a text, as GEP-2257 writes it: "1h30m", "500ms", "0s". Policies may also have fractions, "1.5s": Go writes those.
Out:  milliseconds, or a problem.
"""

from __future__ import annotations

import re

from varnish_gateway.translate.conditions import Problem

_DURATION = re.compile(r"(?:[0-9]{1,5}(?:h|m|s|ms)){1,4}")
_WITH_FRACTIONS = re.compile(r"(?:[0-9]{1,5}(?:\.[0-9]{1,9})?(?:h|m|s|ms)){1,4}")
_PART = re.compile(r"([0-9.]+)(h|ms|m|s)")
_MILLISECONDS = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


def milliseconds(text: str, *, fractions: bool = False) -> int | None:
    """Return the length of a duration, or None where it is none."""
    if not (_WITH_FRACTIONS if fractions else _DURATION).fullmatch(text):
        return None
    return round(sum(float(number) * _MILLISECONDS[unit] for number, unit in _PART.findall(text)))


def parse_duration(field: str, text: str | None, problems: list[Problem], *, fractions: bool = False) -> int | None:
    """Return the milliseconds of a field that may be absent; add a problem where it is no duration."""
    if text is None:
        return None
    found = milliseconds(text, fractions=fractions)
    if found is None:
        message = f'{field}: {text!r} is not a duration such as "500ms" or "1m30s"; correct it'
        problems.append(Problem("UnsupportedValue", message))
    return found
