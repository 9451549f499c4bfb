"""Fields of generated objects that other managers hold.

In:   a manifest, and the fields in conflict, as the API server writes them:
      ``.spec.replicas``, ``.spec.ports[port=80,protocol="TCP"].nodePort``.
Out:  the manifest without them, and a record to detect when their managers hold other fields.
Pure.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from varnish_gateway import errors
from varnish_gateway.api import Key

_KEYED = re.compile(r"\[((?:\"(?:[^\"\\]|\\.)*\"|[^\]\"])*)\]")
_PAIR = re.compile(r"(?P<name>[A-Za-z]+)=(?P<value>\"(?:[^\"\\]|\\.)*\"|[^,]*)")


class LeftFields(NamedTuple):
    """Fields of a manifest that were left to managers, and everything that these held at that time."""

    manifest: Mapping[str, Any]
    fields: tuple[str, ...]
    managers: tuple[str, ...]
    held: list[Any]


def conflict_in(key: Key, conflict: errors.FieldConflict) -> errors.FieldConflict:
    """Return the error for an object that can't do without the fields in conflict."""
    held = f"{key}: {', '.join(conflict.fields)} is held by {', '.join(conflict.managers)}"
    remedy = f"delete the {key.kind}, and the operator recreates it at once"
    return errors.FieldConflict(f"{held}; {remedy}", managers=conflict.managers, fields=conflict.fields)


def held_by(managers: Collection[str], document: Mapping[str, Any]) -> list[Any]:
    """Return the fields of an object that managers hold, as the API server records them."""
    entries = document["metadata"].get("managedFields", ())
    return [entry.get("fieldsV1") for entry in entries if entry["manager"] in managers]


def without(manifest: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """Return the manifest without the fields; a field that it does not have is ignored."""
    rest: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(manifest))
    for path in fields:
        _remove(rest, path)
    return rest


def _remove(value: Any, path: str) -> None:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        _remove_from_mapping(value, path)
    elif isinstance(value, list) and (found := _KEYED.match(path)):
        _remove_from_list(value, found[1], path[found.end() :])


def _remove_from_mapping(value: dict[str, Any], path: str) -> None:
    # Keys may contain dots (main.vcl): the longest key that matches is the field.
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
    selected = {pair["name"]: msgspec.json.decode(pair["value"]) for pair in _PAIR.finditer(selector)}
    if not selected:
        return
    for item in list(value):
        if isinstance(item, dict) and all(item.get(name) == expected for name, expected in selected.items()):
            if rest:
                _remove(item, rest)
            else:
                value.remove(item)
