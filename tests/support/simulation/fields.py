"""Who owns which fields: the language of server-side apply.

In:   documents.
Out:  documents in *keyed* form, in which a list whose elements have a name is a mapping by that name, so that every
      field has a path; the paths that a document states, and the document that is left without some.
Pure. A list that is not in KEYED is one value, as most are to the API server.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

Document = dict[str, Any]
Path = tuple[str, ...]

KEYED: dict[Path, str] = {
    ("metadata", "finalizers"): "",
    ("metadata", "ownerReferences"): "uid",
    ("spec", "listeners"): "name",
    ("status", "conditions"): "type",
    ("status", "listeners"): "name",
}
"""Lists that are merged, and the field that names an element; of finalizers each one is its own name."""
IDENTITY: tuple[Path, ...] = (
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "uid"),
    ("metadata", "resourceVersion"),
)
"""Fields that identify an object and have no owner."""


def copied(document: Any) -> Any:
    """Return a copy that shares nothing; what is not JSON becomes it."""
    return msgspec.json.decode(msgspec.json.encode(document))


def keyed(document: Document) -> Document:
    """Return a copy in keyed form. An empty list of elements is none."""
    new = copied(document)
    for (part, name), key in KEYED.items():
        items = new.get(part, {}).pop(name, None) if isinstance(new.get(part), dict) else None
        if items:
            new[part][name] = {(item[key] if key else item): item for item in items}
    return new


def listed(document: Document) -> Document:
    """Return a document in keyed form as it is stored."""
    new = dict(document)
    for part, name in KEYED:
        if name in (new.get(part) or {}):
            new[part] = {**new[part], name: list(new[part][name].values())}
    return new


def leaves(document: Document, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the fields that a document in keyed form states, with their values. An empty mapping is a value."""
    for name, value in document.items():
        if (where := (*path, name)) in IDENTITY:
            continue
        if isinstance(value, dict) and value:
            yield from leaves(value, where)
        else:
            yield where, value


def managed_fields(paths: Iterable[Path]) -> Document:
    """Return paths as managedFields has them. Elements of lists appear as if they were fields."""
    tree: Document = {}
    for path in sorted(paths):
        branch = tree
        for name in path:
            branch = branch.setdefault(f"f:{name}", {})
    return tree


def value_at(document: Document, path: Path) -> Any:
    """Return the value of a field; None where there is none."""
    value: Any = document
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def put(document: Document, path: Path, value: Any) -> None:
    """Set a field in place. An empty mapping sets nothing."""
    if value == {}:
        return
    for name in path[:-1]:
        document = document.setdefault(name, {})
    document[path[-1]] = value


def merged(document: Any, patch: Any) -> Any:
    """Return a JSON merge patch applied: null removes, lists are replaced."""
    if not isinstance(patch, dict):
        return patch
    new = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        else:
            new[name] = merged(new.get(name), value)
    return new


def drop(document: Document, paths: Iterable[Path], kept: Collection[Path]) -> None:
    """Remove fields in place, and what is empty then.

    A part of which nothing is to be kept goes as a whole, with the defaults in it.
    """
    for path in paths:
        whole = path
        while len(whole) > 2 and not any(one[: len(whole) - 1] == whole[:-1] for one in kept):
            whole = whole[:-1]
        _drop(document, whole)


def _drop(document: Document, path: Path) -> None:
    name, *rest = path
    inner = document.get(name)
    if rest and isinstance(inner, dict):
        _drop(inner, tuple(rest))
    if not rest or inner == {}:
        document.pop(name, None)
