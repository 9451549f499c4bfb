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


class Page(Struct):
    metadata: PageMetadata = field(default_factory=PageMetadata)
    items: list[msgspec.Raw] = field(default_factory=list)


class _Line(Struct, gc=False):
    type: str
    object: msgspec.Raw


_line = msgspec.json.Decoder(_Line).decode
head_of = msgspec.json.Decoder(Head).decode
page_of = msgspec.json.Decoder(Page).decode


def events(lines: Iterable[bytes]) -> Iterator[WatchEvent]:
    """Yield the events of the lines; raise an error for an ERROR or an invalid line."""
    for line in lines:
        try:
            parsed = _line(line)
            head = head_of(parsed.object)
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
