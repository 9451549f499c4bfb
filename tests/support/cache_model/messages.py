"""Heads of requests and responses, as a cache reads them.

In:   header lines in their order.
Out:  the lines of a field, whatever the case of its name (RFC 9110, section 5.1).
"""

from dataclasses import dataclass, replace
from typing import Self

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Message:
    headers: Headers = ()

    def lines(self, name: str) -> list[str]:
        return [value.strip(" \t") for field, value in self.headers if field.lower() == name.lower()]

    def has(self, name: str) -> bool:
        return bool(self.lines(name))

    def only(self, name: str) -> str | None:
        """Return the value of a field that has one line."""
        lines = self.lines(name)
        return lines[0] if len(lines) == 1 else None

    def combined(self, name: str) -> str | None:
        """Return all lines of a field as one (RFC 9110, section 5.3)."""
        return ", ".join(self.lines(name)) if self.has(name) else None

    def without(self, *names: str) -> Self:
        unwanted = {name.lower() for name in names}
        return replace(self, headers=tuple(line for line in self.headers if line[0].lower() not in unwanted))


@dataclass(frozen=True, kw_only=True)
class Request(Message):
    method: str = "GET"
    path: str = "/"


@dataclass(frozen=True, kw_only=True)
class Response(Message):
    """``body`` names the representation: two responses with the same one are interchangeable."""

    status: int = 200
    body: str = ""
