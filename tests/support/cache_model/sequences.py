"""Sequences of requests, responses and clock steps, for Hypothesis.

Header values such as "@-10" are dates, relative to the time at which a message is sent; a letter
chooses another spelling ("@8-10" is RFC 850, "@a-10" asctime, "@l-10" lower case).
"""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from hypothesis import strategies as st

from support.cache_model.messages import Headers, Message, Request, Response
from support.cache_model.policy import Policy

START = 1_790_000_000_000
_DATE = re.compile(r"@([8al]?)([+-]?\d+)")
_FORMATS = {
    "": "%a, %d %b %Y %H:%M:%S GMT",
    "8": "%A, %d-%b-%y %H:%M:%S GMT",
    "a": "%a %b %e %H:%M:%S %Y",
    "l": "%a, %d %b %Y %H:%M:%S GMT",
}
M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class Event:
    """A request after ``step`` milliseconds, and what the origin says if it is asked.

    It answers after ``delay``. ``not_modified`` has the fields with which it confirms what
    a conditional request names; it sends the response if that is None.
    """

    step: int
    request: Request
    response: Response
    not_modified: Headers | None
    delay: int


def dated(message: M, now: int) -> M:
    """Return the message with dates relative to ``now``, in milliseconds."""
    return replace(message, headers=tuple((name, _dated(value, now)) for name, value in message.headers))


def _dated(value: str, now: int) -> str:
    found = _DATE.fullmatch(value)
    if found is None:
        return value
    text = datetime.fromtimestamp(now // 1000 + int(found[2]), UTC).strftime(_FORMATS[found[1]])
    return text.lower() if found[1] == "l" else text


def _field(name: str, *values: str) -> st.SearchStrategy[Headers]:
    return st.sampled_from(values).map(lambda value: ((name, value),))


def _directives(*directives: str, repeated: bool = True) -> st.SearchStrategy[Headers]:
    """Return up to four directives, in one line or in several."""
    chosen = st.lists(
        st.sampled_from(directives),
        min_size=1,
        max_size=4,
        unique_by=None if repeated else lambda directive: directive.partition("=")[0],
    )
    one_line = chosen.map(lambda found: (("Cache-Control", ", ".join(found)),))
    lines = chosen.map(lambda found: tuple(("cache-control", directive) for directive in found))
    return one_line | one_line | lines


def _optional(*fields: st.SearchStrategy[Headers]) -> st.SearchStrategy[Headers]:
    """Return a few of the fields, each once: those that the RFC has rules for are listed twice."""
    some = st.lists(st.sampled_from(range(len(fields))), max_size=4, unique=True)
    lines = some.flatmap(lambda chosen: st.tuples(*(fields[at] for at in chosen)))
    return lines.map(lambda found: tuple(line for lines in found for line in lines))


_lifetimes = (
    "max-age=0",
    "max-age=5",
    "max-age=60",
    'max-age="10"',
    "MAX-AGE=10",
    "max-age=x",
    "max-age",
    "s-maxage=0",
)
_lifetimes += ("s-maxage=5", "s-maxage=30", "max-age=99999999999999999999", "max-age=10", "max-age=20", "max-age=40")
_restrictions = ("no-cache", 'no-cache="X-User"', "no-store", "private", 'private="X-User"', "private=X-User", "public")
_restrictions += ("must-revalidate", "proxy-revalidate", "must-understand", "immutable", "unknown", 'x="a, no-store"')
_windows = ("stale-while-revalidate=10", "stale-while-revalidate=0", "stale-if-error=20", "stale-if-error=0")
_windows += ("stale-while-revalidate=3600", "stale-if-error=86400", "stale-if-error=y")
_expires = _field("Expires", "@+10", "@-5", "0", "@8+10", "@a+30", "@l+10", "Thu, 01 Jan 2099 00:00:00 CET")
_age = _field("Age", "0", "5", "5, 100", "x", "-1", "30")
_vary = _field("Vary", "Accept-Encoding", "X-A", "*", "Accept-Encoding, X-A", "X-A, *", ", x-a ,")
_response_fields = (
    _directives(*_lifetimes, *_restrictions, *_windows),
    _directives(*_lifetimes, *_windows),
    _directives(*_lifetimes[:3], *_restrictions, *_windows[:3]),
    _expires,
    _expires,
    _field("Date", "@0", "@-10", "@+5", "x", "@a-3"),
    _age,
    _age,
    _field("ETag", '"a"', 'W/"a"', '"b"', 'W/"b"'),
    _field("Last-Modified", "@-100", "@8-1000", "y"),
    _vary,
    _vary,
    _field("Set-Cookie", "a=b"),
    _field("CDN-Cache-Control", "max-age=20", "no-store", "max-age=,", "none", "max-age=20;x, stale-if-error=30", ""),
    _field("Location", "/b", "http://cache.example/b", "http://other.example/b", "//cache.example:80/b"),
    _field("Content-Location", "b", "https://cache.example/b"),
)
_statuses = (200,) * 12 + (203, 204, 299, 301, 302, 303, 307, 308, 404, 410, 403, 500, 501, 502, 503, 504, 599)
_asked = ("no-cache", "no-store", "max-age=0", "max-age=5", "max-age=30", "min-fresh=5", "min-fresh=0", "max-stale")
_asked += ("max-stale=10", "max-stale=x", "max-age=30", "only-if-cached", "stale-if-error=60")
_encodings = _field("Accept-Encoding", "gzip", "GZIP", "gzip, br", "br,gzip", "gzip;q=0.5")
_tags = _field("If-None-Match", '"a"', 'W/"a"', '"x", "a"', "*", '"zz"')
_request_fields = (
    _directives(*_asked, repeated=False),
    _field("Pragma", "no-cache", "x"),
    _encodings,
    _encodings,
    _field("X-A", "1", "2"),
    _tags,
    _tags,
    _field("If-Modified-Since", "@-100", "@-200", "@0", "x"),
    _field("Authorization", "Basic eDp5"),
    _field("If-Match", '"a"'),
)
_methods = ("GET",) * 14 + ("HEAD", "HEAD", "POST", "PUT", "DELETE", "FROB", "OPTIONS")
_steps = (0, 0, 1000, 1000, 4000, 5000, 6000, 9000, 10_000, 11_000, 20_000, 30_000, 60_000, 3_600_000, 90_000_000)

requests = st.builds(
    Request,
    method=st.sampled_from(_methods),
    path=st.sampled_from(["/a", "/a", "/a", "/b"]),
    headers=st.just(()) | _optional(*_request_fields),
)
responses = st.builds(Response, status=st.sampled_from(_statuses), headers=_optional(*_response_fields))
events = st.builds(
    Event,
    step=st.sampled_from(_steps),
    request=requests,
    response=responses,
    not_modified=st.none() | _optional(*_response_fields[:9]),
    delay=st.sampled_from([0, 0, 0, 2000]),
)
sequences = st.lists(events, min_size=1, max_size=8)
_times = st.sampled_from([0, 10_000, 30_000, 120_000])
policies = st.builds(
    lambda forced, ttl, grace, swr, sie, keep: Policy(
        default_ttl=None if forced else ttl,
        forced_ttl=ttl if forced else None,
        grace=grace,
        stale_while_revalidate=None if grace is not None else swr,
        stale_if_error=sie,
        keep=keep,
    ),
    st.sampled_from([False, False, True]),
    st.sampled_from([10_000, 60_000]),
    st.none() | _times,
    st.none() | _times,
    st.none() | _times,
    st.sampled_from([0, 30_000, 3_600_000]),
)
