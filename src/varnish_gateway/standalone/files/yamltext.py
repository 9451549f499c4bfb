"""Read YAML into plain values, strictly.

In:   the text of a file.
Out:  one ``Text`` per document: its value and the line where it starts; with ``lines=True``
      also the line of every field, for messages.
Pure. Raises ``Unreadable`` with a line for anything that the user has to correct.

PyYAML's own constructor keeps the last of two equal keys, turns dates and 10:30 into values that
no Kubernetes object has, and shares aliased values, so that setting a default would change several
places. Reading libyaml's events is also faster, and needs no recursion, so that we can limit the depth.
"""

# ruff: noqa: ANN401  a document's values can be anything

import copy
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

import yaml
from yaml._yaml import CParser

MAX_DEPTH = 100
MAX_ALIASED = 100_000  # values that aliases may add to one file; real manifests add dozens

_STR_TAG = "tag:yaml.org,2002:str"
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0o[0-7_]+|0[0-7_]+|0b[01_]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {
    **{word: True for low in ("true", "yes", "on") for word in (low, low.title(), low.upper())},
    **{word: False for low in ("false", "no", "off") for word in (low, low.title(), low.upper())},
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}

FieldPath = tuple[str | int, ...]


class Unreadable(Exception):
    """The text is not a readable manifest; ``line`` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class Text(NamedTuple):
    """One document of a file."""

    value: Any
    line: int
    lines: dict[FieldPath, int]


def documents(text: str, *, lines: bool = False) -> Iterator[Text]:
    """Yield the documents of text that are not empty."""
    parser = CParser(text)
    try:
        while parser.check_event():
            if isinstance(parser.get_event(), yaml.DocumentStartEvent):
                document = _Builder(parser, lines=lines).build()
                if document.value is not None:
                    yield document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        last = max(1, len(text.splitlines()))  # report what is missing at the end in the last line
        raise Unreadable(_explain(error, text), min(mark.line + 1, last) if mark else 1) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Unreadable(f"the character {chr(error.character)!r} is not allowed here: {error.reason}", line) from None


def _explain(error: yaml.MarkedYAMLError, text: str) -> str:
    """Return a message in terms of the text that the user wrote."""
    mark = error.problem_mark
    at = "".join(text.split("\n")[mark.line : mark.line + 1]) if mark else ""
    if "\t" in at[: len(at) - len(at.lstrip())]:
        return "a tab indents this line; YAML allows only spaces there"
    return f"{error.context}: {error.problem}" if error.context else str(error.problem)


@lru_cache(maxsize=8192)
def plain(value: str) -> str | float | bool | None:
    """Resolve an unquoted scalar as Kubernetes' own YAML reader does."""
    if value in _WORDS:
        return _WORDS[value]
    if _INTEGER.fullmatch(value):
        return _integer(value.replace("_", ""))
    if _FLOAT.fullmatch(value):
        return float(value)
    return value


def _integer(digits: str) -> int:
    unsigned = digits.lstrip("+-")
    if len(unsigned) > 1 and unsigned[0] == "0" and unsigned[1].isdigit():
        return int(digits, 8)
    return int(digits, 0)


class _Builder:
    """Builds one document from events, with a stack instead of recursion."""

    def __init__(self, parser: Any, *, lines: bool) -> None:
        self.parser = parser
        self.wants_lines = lines
        self.lines: dict[FieldPath, int] = {}
        self.anchors: dict[str, tuple[Any, int]] = {}  # value and how many values it holds
        self.aliased = 0
        self.count = 0

    def build(self) -> Text:
        event = self.parser.get_event()
        if type(event) is yaml.AliasEvent:
            _reject(event, "a document can't be an alias of another one")
        value = self._scalar(event) if type(event) is yaml.ScalarEvent else self._container(event)
        return Text(value, event.start_mark.line + 1, self.lines)

    def _container(self, start: Any) -> Any:
        root: Any = {} if type(start) is yaml.MappingStartEvent else []
        stack: list[_Frame] = [_Frame(root, start.anchor, self.count)]
        get_event = self.parser.get_event
        while stack:
            frame = stack[-1]
            event = get_event()
            kind = type(event)
            if kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                stack.pop()
                if frame.anchor:
                    self.anchors[frame.anchor] = (frame.value, self.count - frame.first)
                continue
            if frame.is_mapping and frame.key is None:
                frame.key = frame.place = self._key(event, frame)
                self._remember_line(stack, event)
                continue
            if not frame.is_mapping:
                frame.place = len(frame.value)
                self._remember_line(stack, event)
            if kind is yaml.ScalarEvent:
                self._put(frame, self._scalar(event), event)
            elif kind is yaml.AliasEvent:
                self._put(frame, self._alias(event), event)
            else:
                if len(stack) >= MAX_DEPTH:
                    _reject(event, f"nested more than {MAX_DEPTH} levels deep")
                child: Any = {} if kind is yaml.MappingStartEvent else []
                self.count += 1
                stack.append(_Frame(child, event.anchor, self.count))
                self._put(frame, child, event)
        return root

    def _remember_line(self, stack: list["_Frame"], event: Any) -> None:
        if self.wants_lines:
            self.lines[tuple(frame.place for frame in stack)] = event.start_mark.line + 1

    def _put(self, frame: "_Frame", value: Any, event: Any) -> None:
        if not frame.is_mapping:
            frame.value.append(value)
            return
        key, frame.key = frame.key, None
        if key == "<<" and isinstance(value, dict):
            for merged, inherited in value.items():
                frame.value.setdefault(merged, inherited)
                frame.inherited.add(merged)
        elif key == "<<":
            _reject(event, 'a merge key "<<" takes one alias of a mapping')
        else:
            frame.value[key] = value

    def _key(self, event: Any, frame: "_Frame") -> str:
        if type(event) is not yaml.ScalarEvent:
            _reject(event, "a key has to be plain text")
        key: str = event.value
        if key in frame.value:
            if key not in frame.inherited:
                _reject(event, f'the key "{key}" is given twice')
            frame.inherited.discard(key)
        return key

    def _scalar(self, event: Any) -> Any:
        self.count += 1
        tag = event.tag
        if tag is None:
            value = plain(event.value) if event.implicit[0] else event.value
        elif tag in (_STR_TAG, "!"):
            value = event.value
        else:
            _reject(event, f"the tag {tag.removeprefix('tag:yaml.org,2002:')!r} has no meaning here; remove it")
        if event.anchor:
            self.anchors[event.anchor] = (value, 1)
        return value

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self.anchors:
            _reject(event, f"the alias *{event.anchor} stands before the end of its anchor")
        value, size = self.anchors[event.anchor]
        self.aliased += size
        self.count += size
        if self.aliased > MAX_ALIASED:
            _reject(event, f"aliases unfold to more than {MAX_ALIASED} values")
        return copy.deepcopy(value)


class _Frame:
    """A container that is being filled."""

    __slots__ = ("anchor", "first", "inherited", "is_mapping", "key", "place", "value")

    def __init__(self, value: Any, anchor: str | None, first: int) -> None:
        self.value = value
        self.anchor = anchor
        self.first = first
        self.is_mapping = type(value) is dict
        self.key: str | None = None  # of a mapping, while its value is awaited
        self.place: str | int = 0  # of the child that is being built
        self.inherited: set[str] = set()


def _reject(event: Any, message: str) -> NoReturn:
    raise Unreadable(message, event.start_mark.line + 1)
