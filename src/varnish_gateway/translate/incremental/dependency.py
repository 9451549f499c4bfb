"""What a computation can depend on: an object, or something derived from objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

from varnish_gateway.api.meta import Key

if TYPE_CHECKING:
    from collections.abc import Hashable

T = TypeVar("T")


class Derived(NamedTuple):
    """Names something derived: a value in a table, a list of an index, the winner of a place, a tally."""

    what: str
    of: Hashable


Dependency: TypeAlias = Key | Derived


class Table(Generic[T]):
    """The typed name of the values that one layer computes."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
