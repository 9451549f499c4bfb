"""Durations as GEP-2257 writes them: "1h30m", "500ms", "0s"."""

from __future__ import annotations

import re

from varnish_gateway.translate.conditions import Problem

_DURATION = re.compile(r"(?:[0-9]{1,5}(?:h|m|s|ms)){1,4}")
_PART = re.compile(r"([0-9]+)(h|ms|m|s)")
_MILLISECONDS = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


def milliseconds(text: str) -> int | None:
    """Return the length of a duration, or None where it is none."""
    if not _DURATION.fullmatch(text):
        return None
    return sum(int(number) * _MILLISECONDS[unit] for number, unit in _PART.findall(text))


def parse_duration(field: str, text: str | None, problems: list[Problem]) -> int | None:
    """Return the milliseconds of a field that may be absent; add a problem where it is no duration."""
    if text is None:
        return None
    found = milliseconds(text)
    if found is None:
        message = f'{field}: {text!r} is not a duration such as "500ms" or "1m30s"; correct it'
        problems.append(Problem("UnsupportedValue", message))
    return found
