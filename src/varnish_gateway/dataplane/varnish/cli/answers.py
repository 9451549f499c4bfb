"""Typed answers of varnishd's command line.

In:   the text of an answer, JSON (``-j``) wherever varnishd has it.
Out:  Structs. Fields that newer versions add are ignored; fields that only some versions
have are optional.
"""

from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T")

# -j answers are [version, [words of the command], time, item, item, …].
_PREFIX = 3


class LabelTarget(Struct, frozen=True):
    name: str


class VclEntry(Struct, frozen=True):
    """A line of vcl.list."""

    name: str
    status: str  # active, available, discarded
    state: str  # auto, cold, warm, label
    temperature: str = ""
    busy: int = 0  # known while a worker runs
    labels: int = 0
    label: LabelTarget | None = None


class VclDependencies(Struct, frozen=True):
    name: str
    deps: tuple[str, ...] = ()


class Parameter(Struct, frozen=True):
    name: str
    implemented: bool = True
    value: Any = None  # a number, a text, a truth value or, for bits, an object
    default: str | None = None
    units: str | None = None
    minimum: str | None = None
    maximum: str | None = None
    description: str = ""
    flags: tuple[str, ...] = ()


class BackendEntry(Struct, frozen=True):
    """A backend or director of backend.list; probe_message is [good, window, text] or a text."""

    type: str = ""
    admin_health: str = ""
    probe_message: Any = None
    probe_details: Any = None
    last_change: float = 0.0


class Ban(Struct, frozen=True):
    time: float
    refs: int
    completed: bool
    spec: str = ""


class StorageDevice(Struct, frozen=True):
    name: str
    storage: str


class Pids(Struct, frozen=True):
    master: int
    worker: int | None = None


class CommandHelp(Struct, frozen=True):
    request: str
    syntax: str
    help: str = ""
    minarg: int = 0
    maxarg: int = 0
    flags: str = ""
    json: bool = False


class Pong(NamedTuple):
    time: float
    version: str


class ListenAddress(NamedTuple):
    """A socket that varnishd holds; port is the real one where 0 was asked for."""

    name: str
    address: str
    port: int


def items(text: str, item_type: type[T]) -> tuple[T, ...]:
    """Return the items of a -j answer that is a list."""
    document: list[Any] = msgspec.json.decode(text)
    return tuple(msgspec.convert(entry, item_type, strict=False) for entry in document[_PREFIX:])


def single(text: str, item_type: type[T]) -> T:
    """Return the only item of a -j answer."""
    return items(text, item_type)[0]


def pong(text: str) -> Pong:
    _, time, version = text.split()
    return Pong(float(time), version)


def listen_addresses(text: str) -> tuple[ListenAddress, ...]:
    """Parse debug.listen_address: a line of name, address and port per socket."""
    rows = (line.split() for line in text.splitlines() if line.strip())
    return tuple(ListenAddress(name, address, _port(port)) for name, address, port in rows)


def _port(text: str) -> int:
    return int(text) if text.isdigit() else 0  # "-" for a Unix socket
