"""A problem with one field of a document.

A validator appends a problem where it finds one. On the way back, each container adds its own step
to the path, so that a valid document costs no path at all.
"""

# ruff: noqa: ANN401  a document's values can be anything

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

FieldPath = tuple[str | int, ...]


@dataclass
class FieldProblem:
    """``steps`` is the path of the field, innermost step first."""

    message: str
    steps: list[str | int] = field(default_factory=list)

    @property
    def path(self) -> FieldPath:
        return tuple(reversed(self.steps))


def dotted(path: FieldPath) -> str:
    """``spec.rules[0].matches``, as users write it."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def show(value: Any) -> str:
    """Return a value as a file would contain it, shortened if it is long."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:56]}…{text[-1]}"


def kind_of(value: Any) -> str:
    """Return a value with its type, for messages."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    names = {bool: "the boolean", int: "the number", float: "the number", str: "the string"}
    return f"{names[type(value)]} {show(value)}" if value is not None else "nothing"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the part of a message that proposes a known name for a misspelt one."""
    known = sorted(known)
    by_case = [candidate for candidate in known if candidate.lower() == name.lower()]
    near = by_case or difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f'; did you mean "{near[0]}"?'
    return f"; known here: {', '.join(known)}" if known and len(known) <= 12 else ""
