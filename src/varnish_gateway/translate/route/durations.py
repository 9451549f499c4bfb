"""Durations as GEP-2257 writes them: "1h30m", "500ms", "0s"."""

import re

_DURATION = re.compile(r"(?:[0-9]{1,5}(?:h|m|s|ms)){1,4}")
_PART = re.compile(r"([0-9]+)(h|ms|m|s)")
_MILLISECONDS = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


def milliseconds(text: str) -> int | None:
    """Return the length of a duration, or None where it is none."""
    if not _DURATION.fullmatch(text):
        return None
    return sum(int(number) * _MILLISECONDS[unit] for number, unit in _PART.findall(text))
