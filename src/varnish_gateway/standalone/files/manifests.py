"""Read one manifest file.

In:   the name and the bytes of a file, and the catalogue of kinds.
Out:  ``Reading``: the valid objects, the keys of the invalid ones, and complaints that name file,
      line, object, field and the expected value.
Pure. Line numbers cost a second read of the text, so they are determined only for a complaint.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from varnish_gateway import errors
from varnish_gateway.api import Key, Object
from varnish_gateway.decoding import decode
from varnish_gateway.standalone.files import yamltext
from varnish_gateway.standalone.schema import Catalogue, FieldPath, FieldProblem, KindSchema, dotted

SUFFIXES = (".yaml", ".yml", ".json")
DEFAULT_NAMESPACE = "default"
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True)
class Complaint:
    """Something that the user has to correct. ``str()`` is the whole message."""

    file: str
    line: int
    message: str
    object: str = ""
    document: int = 0  # counts from 1; 0: the file as a whole
    field: str = ""

    def __str__(self) -> str:
        document = f"document {self.document}" if self.document else ""
        subject = f"{self.object} ({document})" if self.object and document else self.object or document
        parts = (f"{self.file}:{self.line}", subject, self.field, self.message)
        return ": ".join(part for part in parts if part)


class Found(NamedTuple):
    """A valid object, and the line where it starts."""

    obj: Object
    line: int


@dataclass
class Reading:
    """The content of one file."""

    objects: dict[Key, Found] = field(default_factory=dict)
    broken: set[Key] = field(default_factory=set)  # invalid, with a key
    unnamed: bool = False  # the file has content without a key
    complaints: list[Complaint] = field(default_factory=list)
    ignored: dict[str, Complaint] = field(default_factory=dict)  # kinds that Varnish Gateway does not read


class _Value(NamedTuple):
    """One document of the file as it was read."""

    value: Any
    line: int


class _Place(NamedTuple):
    """A document within its file: ``prefix`` is its path inside a List."""

    value: Any
    line: int
    number: int
    prefix: FieldPath


def read_manifest(name: str, data: bytes, catalogue: Catalogue) -> Reading:
    """Return the content of a file. Invalid content raises nothing: it becomes complaints."""
    try:
        text = data.decode("utf-8-sig")
        values = list(_json_values(text) if name.endswith(".json") else _yaml_values(text))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return _unreadable(Complaint(name, line, "is not UTF-8 text; store the file as UTF-8"))
    except yamltext.Unreadable as error:
        return _unreadable(Complaint(name, error.line, error.message))
    reading, lines = Reading(), _Lines(text)
    for place in _unfold(values):
        _Document(name, place, lines, reading, catalogue).read()
    return reading


def _unreadable(complaint: Complaint) -> Reading:
    return Reading(unnamed=True, complaints=[complaint])


def _yaml_values(text: str) -> Iterator[_Value]:
    return (_Value(document.value, document.line) for document in yamltext.documents(text))


def _json_values(text: str) -> Iterator[_Value]:
    """Yield the JSON values of a text; several may follow each other, as kubectl accepts."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique)
    position, line = 0, 1
    while (start := _SPACE.match(text, position).end()) < len(text):  # type: ignore[union-attr]
        line += text.count("\n", position, start)
        try:
            value, position = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            raise yamltext.Unreadable(error.msg, error.lineno) from None
        except (_DuplicateKey, RecursionError) as error:
            message = str(error) if isinstance(error, _DuplicateKey) else "nested too deep"
            raise yamltext.Unreadable(message, line) from None
        yield _Value(value, line)
        line += text.count("\n", start, position)


class _DuplicateKey(Exception):
    """An object of JSON has a key twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        raise _DuplicateKey(f'the key "{next(name for name in names if names.count(name) > 1)}" is given twice')
    return value


def _unfold(values: list[_Value]) -> Iterator[_Place]:
    """Yield documents; a List yields its items instead."""
    for number, (value, line) in enumerate(values, 1):
        items = value.get("items") if isinstance(value, dict) else None
        if isinstance(items, list) and str(value.get("kind")).endswith("List"):
            for index, item in enumerate(items):
                yield _Place(item, line, number, ("items", index))
        elif value is not None:
            yield _Place(value, line, number, ())


class _Lines:
    """Line numbers of fields, from a second read of the text, which happens only for a complaint."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _documents(self) -> list[yamltext.Text]:
        try:
            return list(yamltext.documents(self._text, lines=True))
        except yamltext.Unreadable:
            return []  # JSON that is not YAML

    def of(self, place: _Place, path: FieldPath) -> int:
        """Return the line of a field, or of the nearest field around it."""
        if len(self._documents) < place.number:
            return place.line
        lines = self._documents[place.number - 1].lines
        whole = place.prefix + path
        nearest = (whole[:length] for length in range(len(whole), 0, -1))
        return next((lines[each] for each in nearest if each in lines), place.line)


class _Document:
    """Reads one document into a Reading."""

    def __init__(self, name: str, place: _Place, lines: _Lines, reading: Reading, catalogue: Catalogue) -> None:
        self.name = name
        self.place = place
        self.lines = lines
        self.reading = reading
        self.catalogue = catalogue

    def read(self) -> None:
        document = self.place.value
        if not isinstance(document, dict):
            self._complain(FieldProblem("expected an object with apiVersion, kind and metadata"), "")
            self.reading.unnamed = True
            return
        kind = self._kind(document)
        if kind is None:
            return
        key = _key(document, kind)
        document.pop("status", None)  # we write it
        problems = kind.check(document)
        if key is None:
            self.reading.unnamed = True
        elif key in self.reading.objects or key in self.reading.broken:
            problems.append(self._twice(key))
        elif not problems:
            self._add(key, document, kind)
        else:
            self.reading.broken.add(key)
        for problem in problems:
            self._complain(problem, str(key or document["kind"]))

    def _kind(self, document: dict[str, Any]) -> KindSchema | None:
        """Return the document's kind; None, with a complaint, if we can't read it."""
        version, kind = document.get("apiVersion"), document.get("kind")
        for name, value in (("apiVersion", version), ("kind", kind)):
            if not isinstance(value, str) or not value:
                self._complain(FieldProblem("is required, as text", [name]), "")
                self.reading.unnamed = True
                return None
        try:
            found = self.catalogue.find(str(version), str(kind))
        except errors.UnknownKind as error:
            self._complain(FieldProblem(str(error)), "")
            self.reading.unnamed = True
            return None
        if found is None:
            message = "is not read by Varnish Gateway and was ignored"
            self.reading.ignored[f"{kind} of {version}"] = self._complaint(FieldProblem(message), str(kind))
        return found

    def _add(self, key: Key, document: dict[str, Any], kind: KindSchema) -> None:
        metadata = document["metadata"]
        if kind.namespaced:
            metadata.setdefault("namespace", DEFAULT_NAMESPACE)
        else:
            metadata.pop("namespace", None)
        self.reading.objects[key] = Found(decode(document), self.place.line)

    def _twice(self, key: Key) -> FieldProblem:
        first = self.reading.objects.get(key)
        where = f" on line {first.line}" if first else " above"
        return FieldProblem(f"is already defined in this file{where}; that one stays, remove one of the two")

    def _complain(self, problem: FieldProblem, subject: str) -> None:
        self.reading.complaints.append(self._complaint(problem, subject))

    def _complaint(self, problem: FieldProblem, subject: str) -> Complaint:
        return Complaint(
            file=self.name,
            line=self.lines.of(self.place, problem.path),
            message=problem.message,
            object=subject,
            document=self.place.number,
            field=dotted(problem.path),
        )


def _key(document: dict[str, Any], kind: KindSchema) -> Key | None:
    """Return the key of a document's object; None if the document names none."""
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not isinstance(metadata, dict):
        return None
    namespace = metadata.get("namespace") or DEFAULT_NAMESPACE
    if not isinstance(namespace, str):
        return None
    return Key(document["kind"], namespace if kind.namespaced else "", name)
