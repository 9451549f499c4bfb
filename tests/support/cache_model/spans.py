"""Times that the RFC leaves open, as intervals."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A number of milliseconds that is at least ``low`` and at most ``high``."""

    low: int
    high: int

    def __add__(self, milliseconds: int) -> "Span":
        return Span(self.low + milliseconds, self.high + milliseconds)

    def beyond(self, other: "Span") -> "Span":
        """Return by how much this exceeds another; zero if it doesn't."""
        return Span(max(0, self.low - other.high), max(0, self.high - other.low))


def exactly(milliseconds: int) -> Span:
    return Span(milliseconds, milliseconds)


NONE = exactly(0)
