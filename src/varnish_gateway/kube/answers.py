"""Turn an API server's refusal into its error.

In:   the HTTP status, the headers and the body of an answer.
Out:  the error to raise, with a message for people.
Pure.
"""

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct, field

from varnish_gateway import errors

_MANAGER = re.compile(r'conflict with "([^"]*)"')


class Cause(Struct, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class Details(Struct, frozen=True, rename="camel"):
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: float = 0.0


class ApiStatus(Struct, frozen=True):
    """What the API server answers instead of an object, and sends as ERROR on a watch."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details = field(default_factory=Details)


_ERRORS: Mapping[int, type[errors.ApiError]] = {
    400: errors.Invalid,
    401: errors.Forbidden,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    410: errors.Expired,
    422: errors.Invalid,
}


_UNTYPED = "failed to create typed patch object"


def refusal(code: int, body: bytes | msgspec.Raw, headers: Mapping[str, str] | None = None) -> errors.ApiError:
    """Return the error for an answer that is no success."""
    status = _status(code, body)
    if code == 429:
        return errors.Throttled(status.message, retry_after=_retry_after(status, headers or {}) or 1.0)
    if code == 409 and (causes := [c for c in status.details.causes if c.reason == "FieldManagerConflict"]):
        return _field_conflict(status.message, causes)
    if code == 500 and status.message.startswith(_UNTYPED):  # a field that the API server keeps as it comes
        return errors.Invalid(status.message, status=code, reason=status.reason)
    wait = _retry_after(status, headers or {}) if code >= 500 else 0.0
    return _ERRORS.get(code, errors.ApiError)(status.message, status=code, reason=status.reason, retry_after=wait)


def _status(code: int, body: bytes | msgspec.Raw) -> ApiStatus:
    try:
        status = msgspec.json.decode(body, type=ApiStatus)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ApiStatus(message=_plain(code, bytes(body)), code=code)
    return status if status.message else ApiStatus(message=_plain(code, bytes(body)), reason=status.reason, code=code)


def _plain(code: int, body: bytes) -> str:
    text = body[:200].decode(errors="replace").strip()
    return f"the API server answered {code}: {text}" if text else f"the API server answered {code}"


def _field_conflict(message: str, causes: list[Cause]) -> errors.FieldConflict:
    managers = sorted({found[1] for cause in causes if (found := _MANAGER.search(cause.message))})
    fields = sorted({cause.field for cause in causes})
    return errors.FieldConflict(message, managers=tuple(managers), fields=tuple(fields))


def _retry_after(status: ApiStatus, headers: Mapping[str, str]) -> float:
    try:
        return float(headers.get("Retry-After", "")) or status.details.retry_after_seconds
    except ValueError:
        return status.details.retry_after_seconds
