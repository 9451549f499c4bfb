"""The grammar of header fields, as RFC 9110 and RFC 9111 give it.

In:   field values.
Out:  members of lists, dates, numbers of seconds; None for what the grammar excludes.
"""

import calendar
import re
from datetime import UTC, datetime

LARGEST_SECONDS = 2**31  # RFC 9111, section 1.2.2

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_MEMBER = re.compile(rf"(?:{_QUOTED}|[^,])+")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAY = "(?:mon|tue|wed|thu|fri|sat|sun)"
_LONG_DAY = "(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
_MONTH = f"(?P<month>{'|'.join(_MONTHS)})"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
# RFC 9110, section 5.6.7; case is irrelevant to caches (RFC 9111, section 4.2).
_DATES = [
    re.compile(pattern, re.ASCII | re.IGNORECASE)
    for pattern in (
        rf"{_DAY}, (?P<day>\d\d) {_MONTH} (?P<year>\d{{4}}) {_TIME} GMT",
        rf"{_LONG_DAY}, (?P<day>\d\d)-{_MONTH}-(?P<year>\d\d) {_TIME} GMT",
        rf"{_DAY} {_MONTH} (?P<day>\d\d| \d) {_TIME} (?P<year>\d{{4}})",
    )
]


def members(value: str) -> list[str]:
    """Return the members of a list; empty ones don't count (RFC 9110, section 5.6.1.2)."""
    return [member for found in _MEMBER.findall(value) if (member := found.strip(" \t"))]


def unquoted(value: str) -> str:
    """Return what a quoted string stands for (RFC 9110, section 5.6.4)."""
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if re.fullmatch(_QUOTED, value) else value


def is_token(text: str) -> bool:
    return re.fullmatch(_TOKEN, text) is not None


def delta_seconds(text: str) -> int | None:
    """Return a number of seconds (RFC 9111, section 1.2.2)."""
    return min(int(text), LARGEST_SECONDS) if re.fullmatch("[0-9]+", text) else None


def http_date(text: str, now: int) -> int | None:
    """Return seconds since 1970. ``now`` tells the century of a year with two digits."""
    found = next((match for pattern in _DATES if (match := pattern.fullmatch(text))), None)
    if found is None:
        return None
    year, day = int(found["year"]), int(found["day"])
    if len(found["year"]) == 2:
        year = _full_year(year, now)
    month = _MONTHS.index(found["month"].lower()) + 1
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"])
    if not (1 <= day <= calendar.monthrange(year, month)[1] and hour < 24 and minute < 60 and second <= 60):
        return None
    return calendar.timegm((year, month, day, hour, minute, second))


def _full_year(digits: int, now: int) -> int:
    """Read a year that seems more than fifty years ahead as the last one with its digits."""
    latest = datetime.fromtimestamp(now, UTC).year + 50
    return latest - (latest - digits) % 100
