"""Checks of strings, numbers and booleans.

In:   one schema node of a scalar type.
Out:  a check that appends a FieldProblem when a value does not follow it.
"""

# ruff: noqa: ANN401  a document's values can be anything

import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from varnish_gateway.standalone.schema.problem import FieldProblem, did_you_mean, kind_of, show

Check = Callable[[Any, list[FieldProblem]], None]
Schema = Mapping[str, Any]

_INTEGER_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def string(schema: Schema) -> Check:
    """Check a string with its length, pattern, format and values."""
    at_least, at_most = schema.get("minLength", 0), schema.get("maxLength")
    pattern = re.compile(_python_pattern(schema["pattern"])) if "pattern" in schema else None
    is_valid, noun = _FORMATS.get(schema.get("format", ""), (None, ""))
    values = schema.get("enum")

    def check(value: Any, problems: list[FieldProblem]) -> None:
        if type(value) is not str:
            remedy = "" if isinstance(value, dict | list) else f"; write it in quotes: {show(_as_written(value))}"
            problems.append(FieldProblem(f"expected a string, got {kind_of(value)}{remedy}"))
        elif values is not None and value not in values:
            expected = ", ".join(map(str, values))
            hint = did_you_mean(value, values) if len(values) > 12 or _is_near(value, values) else ""
            problems.append(FieldProblem(f"{show(value)} is not one of {expected}{hint}"))
        elif len(value) < at_least:
            problems.append(FieldProblem("must not be empty" if not value else f"needs at least {at_least} characters"))
        elif at_most is not None and len(value) > at_most:
            problems.append(FieldProblem(f"takes at most {at_most} characters, got {len(value)}"))
        elif pattern is not None and not pattern.search(value):
            problems.append(FieldProblem(_pattern_message(value, pattern, schema["pattern"])))
        elif is_valid is not None and not is_valid(value):
            problems.append(FieldProblem(f"expected {noun}, got {show(value)}"))

    return check


def number(schema: Schema) -> Check:
    """Check an integer or a number with its bounds."""
    whole = schema["type"] == "integer"
    low, high = _INTEGER_RANGES.get(schema.get("format", ""), (None, None))
    low, high = schema.get("minimum", low), schema.get("maximum", high)
    values = schema.get("enum")
    noun = "an integer" if whole else "a number"

    def check(value: Any, problems: list[FieldProblem]) -> None:
        if type(value) is not int and (whole or type(value) is not float):
            remedy = "; remove the quotes" if isinstance(value, str) and value.lstrip("-").isdigit() else ""
            problems.append(FieldProblem(f"expected {noun}, got {kind_of(value)}{remedy}"))
        elif values is not None and value not in values:
            problems.append(FieldProblem(f"{value} is not one of {', '.join(map(str, values))}"))
        elif (low is not None and value < low) or (high is not None and value > high):
            problems.append(FieldProblem(f"expected {noun} {_between(low, high)}, got {value}"))

    return check


def boolean(value: Any, problems: list[FieldProblem]) -> None:
    if type(value) is not bool:
        problems.append(FieldProblem(f"expected true or false, got {kind_of(value)}"))


def int_or_string(value: Any, problems: list[FieldProblem]) -> None:
    if type(value) is not int and type(value) is not str:
        problems.append(FieldProblem(f"expected an integer or a string, got {kind_of(value)}"))


def _between(low: float | None, high: float | None) -> str:
    if low is None:
        return f"of at most {high}"
    return f"of at least {low}" if high is None else f"from {low} to {high}"


def _as_written(value: Any) -> str:
    return show(value)


def _is_near(value: str, values: list[Any]) -> bool:
    return "did you mean" in did_you_mean(value, map(str, values))


def _python_pattern(pattern: str) -> str:
    r"""Go's $ is the end of the text, Python's also stands before a last line break."""
    return re.sub(r"(?<!\\)\$(?=$|\||\))", r"\\Z", pattern)


def _pattern_message(value: str, pattern: re.Pattern[str], original: str) -> str:
    for better, what in (
        (value.lower(), "lower case"),
        (value.strip(), "no space around it"),
        (value.rstrip("."), "no dot at the end"),
    ):
        if better != value and pattern.search(better):
            return f"{show(value)} has to be written with {what}: {show(better)}"
    return f"{show(value)} does not match the pattern {original}"


def _is_ip(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return check


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


_FORMATS: dict[str, tuple[Callable[[str], bool], str]] = {
    "ipv4": (_is_ip(4), "an IPv4 address"),
    "ipv6": (_is_ip(6), "an IPv6 address"),
    "date-time": (_is_time, "a time such as 2026-01-31T12:00:00Z"),
}
