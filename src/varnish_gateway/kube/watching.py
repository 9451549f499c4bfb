"""The language of lists and watches.

In:   a selection of objects; bytes that the API server sent.
Out:  paths to ask for; pages and events, with objects left as they came.
Pure.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import Struct, field

from varnish_gateway import errors
from varnish_gateway.kube.answers import refusal
from varnish_gateway.kube.resources import Resource

PAGE_SIZE = 500


class HeadMetadata(Struct, rename="camel", gc=False):
    resource_version: str = ""
    namespace: str = ""
    name: str = ""


class Head(Struct, gc=False):
    """What every object, bookmark and Status begins with."""

    metadata: HeadMetadata = field(default_factory=HeadMetadata)
    code: int = 0


class WatchEvent(NamedTuple):
    """One line of a watch: ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    head: Head
    object: msgspec.Raw


class PageMetadata(Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = field(name="continue", default="")


class Page(NamedTuple):
    """One page of a list: its objects, each with its head."""

    metadata: PageMetadata
    objects: list[tuple[Head, msgspec.Raw]]


class _List(Struct):
    """``items`` has no default: an answer without it is no list. Go writes null for an empty one."""

    kind: str
    metadata: PageMetadata
    items: list[msgspec.Raw] | None


class _Line(Struct, gc=False):
    type: str
    object: msgspec.Raw


_line = msgspec.json.Decoder(_Line).decode
_head = msgspec.json.Decoder(Head).decode
_list = msgspec.json.Decoder(_List).decode


def page_of(text: bytes, kind: str) -> Page:
    """Return a page of objects of a kind.

    Raise ApiError for any other JSON: a reader would take each object that is missing from it for deleted.
    """
    try:
        found = _list(text)
        page = Page(found.metadata, [(_head(item), item) for item in found.items or ()])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.ApiError(f"the answer is not a {kind}List: {error}") from error
    if found.kind != f"{kind}List":
        raise errors.ApiError(f"the answer is a {found.kind}, not a {kind}List")
    if not found.metadata.resource_version or not all(head.metadata.name for head, _ in page.objects):
        raise errors.ApiError(f"the {kind}List has no resource version, or an object without a name")
    return page


def events(lines: Iterable[bytes]) -> Iterator[WatchEvent]:
    """Yield the events of the lines; raise an error for an ERROR or an invalid line."""
    for line in lines:
        try:
            parsed = _line(line)
            head = _head(parsed.object)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise errors.ApiError(f"the watch sent a line that is not an event: {error}") from error
        if parsed.type == "ERROR":
            raise refusal(head.code, parsed.object)
        yield WatchEvent(parsed.type, head, parsed.object)


class Selection(NamedTuple):
    """The objects to list and watch."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    label_selector: str = ""
    field_selector: str = ""

    def at_version(self, version: str) -> "Selection":
        return self._replace(resource=self.resource._replace(version=version))

    def list_path(self, continue_: str) -> str:
        """Return the path of the next page."""
        onward = f"&continue={quote(continue_, safe='')}" if continue_ else ""
        return f"{self.resource.path(self.namespace)}?limit={PAGE_SIZE}{self._selectors}{onward}"

    def watch_path(self, resource_version: str, seconds: int) -> str:
        """Return the path of a watch that goes on after a resource version."""
        return (
            f"{self.resource.path(self.namespace)}?watch=true&allowWatchBookmarks=true"
            f"&resourceVersion={quote(resource_version, safe='')}&timeoutSeconds={seconds}{self._selectors}"
        )

    @property
    def _selectors(self) -> str:
        fields = f"metadata.name={self.name}" if self.name else self.field_selector
        by_field = f"&fieldSelector={quote(fields, safe='')}" if fields else ""
        by_label = f"&labelSelector={quote(self.label_selector, safe='')}" if self.label_selector else ""
        return by_field + by_label
