"""Leave fields to others.

In:   a manifest, and the fields that another manager holds, as the API server writes them:
      ``.spec.replicas``, ``.spec.ports[port=80,protocol="TCP"].nodePort``.
Out:  the manifest without them, and what tells whether their managers hold something else by now.
Pure.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

_KEYED = re.compile(r"\[((?:\"(?:[^\"\\]|\\.)*\"|[^\]\"])*)\]")
_PAIR = re.compile(r"(?P<name>[A-Za-z]+)=(?P<value>\"(?:[^\"\\]|\\.)*\"|[^,]*)")


class Yielded(NamedTuple):
    """Fields that were left to managers, and all that these held at that time."""

    fields: tuple[str, ...]
    managers: tuple[str, ...]
    held: list[Any]


NOTHING = Yielded((), (), [])


def held_by(managers: Collection[str], document: Mapping[str, Any]) -> list[Any]:
    """Return the fields of an object that managers hold, as the API server writes them."""
    entries = document["metadata"].get("managedFields", ())
    return [entry.get("fieldsV1") for entry in entries if entry["manager"] in managers]


def without(manifest: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """Return the manifest without the fields; a field that it does not have is passed over."""
    left: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(manifest))
    for path in fields:
        _remove(left, path)
    return left


def _remove(value: Any, path: str) -> None:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        _remove_from_mapping(value, path)
    elif isinstance(value, list) and (found := _KEYED.match(path)):
        _remove_from_list(value, found[1], path[found.end() :])


def _remove_from_mapping(value: dict[str, Any], path: str) -> None:
    # Keys may hold dots (main.vcl): the longest one that fits is meant.
    for key in sorted(value, key=len, reverse=True):
        rest = path.removeprefix(f".{key}")
        if rest == path or (rest and rest[0] not in ".["):
            continue
        if rest:
            _remove(value[key], rest)
        else:
            del value[key]
        return


def _remove_from_list(value: list[Any], selector: str, rest: str) -> None:
    wanted = {pair["name"]: msgspec.json.decode(pair["value"]) for pair in _PAIR.finditer(selector)}
    if not wanted:
        return
    for item in list(value):
        if isinstance(item, dict) and all(item.get(name) == expected for name, expected in wanted.items()):
            if rest:
                _remove(item, rest)
            else:
                value.remove(item)
