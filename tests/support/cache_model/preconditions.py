"""Conditional requests: those that clients send, and those that the cache sends.

In:   fields of a request, of a stored response, or of a 304.
Out:  the statuses that answer a client (RFC 9111, section 4.3.2), the fields that validate
      a stored response (section 4.3.1), and what a 304 changes (sections 3.2 and 4.3.4).
"""

from dataclasses import replace

from support.cache_model.messages import Message, Request, Response
from support.cache_model.syntax import http_date, members

# RFC 9111, section 3.2: fields of a connection, of a proxy, and those by which a body is read.
_KEPT = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
_KEPT |= {"content-length", "content-range", "content-encoding", "proxy-authenticate", "proxy-authentication-info"}


def statuses(request: Request, stored: Response, received: int) -> frozenset[int]:
    """Return the statuses with which a stored response may answer. ``received`` is in milliseconds."""
    whole = frozenset({stored.status}) | (_ranges(request, stored) if stored.status == 200 else frozenset())
    if not 200 <= stored.status < 300:
        return whole
    unmodified = _is_unmodified(request, stored, received // 1000)
    # Section 4.3.2 has a rule for 200; that other successes become 304 follows from RFC 9110 only.
    modified = False in unmodified or stored.status != 200
    return (whole if modified else frozenset()) | (frozenset({304}) if True in unmodified else frozenset())


def _ranges(request: Request, stored: Response) -> frozenset[int]:
    """Return the statuses of a part. RFC 9110: a range may be ignored (14.2), or has to be (13.1.5)."""
    if request.method != "GET" or not request.has("range"):
        return frozenset()
    named = request.combined("if-range")
    if named is None:
        return frozenset({206, 416})
    strong = not named.startswith("W/") and named == stored.only("etag")
    return frozenset({206, 416}) if strong or _is_strong_date(named, stored) else frozenset()


def _is_strong_date(named: str, stored: Response) -> bool:
    """RFC 9110, section 8.8.2.2."""
    modified, date = (http_date(stored.only(name) or "", 0) for name in ("last-modified", "date"))
    later = modified is not None and date is not None and date > modified
    return named == stored.only("last-modified") and later


def _is_unmodified(request: Request, stored: Response, received: int) -> set[bool]:
    """Return both answers where an invalid Date may count as the time of arrival."""
    if request.has("if-none-match"):
        tags = members(request.combined("if-none-match") or "")
        own = stored.only("etag")
        return {"*" in tags or (own is not None and _opaque(own) in map(_opaque, tags))}
    since = http_date(request.only("if-modified-since") or "", received)
    modified = stored.only("last-modified") or stored.only("date")
    if since is None:
        return {False}
    at = received if modified is None else http_date(modified, received)
    return {False, received <= since} if at is None else {at <= since}


def validators(stored: Response) -> dict[str, str]:
    """Return the fields of a request that validates a stored response."""
    modified = stored.only("last-modified") or ""
    dated = http_date(modified, 0) is not None
    fields = {"If-None-Match": stored.only("etag"), "If-Modified-Since": modified if dated else None}
    return {name: value for name, value in fields.items() if value}


def identifies(not_modified: Response, stored: Response) -> bool:
    """Tell whether a 304 speaks of a stored response (section 4.3.4).

    A 304 without validators is taken: the gateway asks about one response at a time.
    """
    new, old = not_modified.only("etag"), stored.only("etag")
    if new is not None and not _is_weak(new):
        return new == old
    modified = not_modified.only("last-modified")
    if new is not None:
        return old is not None and _opaque(new) == _opaque(old)
    return modified is None or modified == stored.only("last-modified")


def updated(stored: Response, not_modified: Response) -> Response:
    """Return the stored response with the fields of a 304 in place of its own (section 3.2)."""
    new = tuple(line for line in not_modified.headers if line[0].lower() not in _KEPT)
    kept = stored.without(*(name for name, _ in new))
    return replace(kept, headers=(*kept.headers, *new))


def is_outdated_by(stored: Response, head: Message) -> bool:
    """Tell whether a response to HEAD shows that a stored one is outdated (section 4.3.5)."""
    fields = ("etag", "last-modified", "content-length")
    return any(head.has(name) and head.only(name) != stored.only(name) for name in fields)


def _is_weak(tag: str) -> bool:
    return tag.startswith("W/")


def _opaque(tag: str) -> str:
    return tag.removeprefix("W/")
