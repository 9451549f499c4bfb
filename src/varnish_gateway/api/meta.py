"""What every object has: its name, its metadata, its place in the store."""

from datetime import UTC, datetime
from typing import ClassVar, NamedTuple

from msgspec import Struct, field


class Key(NamedTuple):
    """Names an object. Cluster-scoped kinds have the namespace ""."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Read(Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of everything that we read.

    Other fields are ignored, so what we don't read is no change: an annotation on a Service of
    thousands of routes costs nothing.
    """


class Metadata(Read, frozen=True):
    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    labels: dict[str, str] = field(default_factory=dict)


class Object(Read, frozen=True):
    """Base of the kinds."""

    kind: ClassVar[str]
    namespaced: ClassVar[bool] = True

    metadata: Metadata

    @property
    def created(self) -> int:
        """Seconds since 1970; an object without a timestamp, or with the year 1 as Go writes it, is the oldest."""
        stamp = self.metadata.creation_timestamp
        return max(0, int(stamp.timestamp())) if stamp else 0


def timestamp(seconds: float) -> str:
    """Return a time, in seconds since 1970, as Kubernetes writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def key_of(obj: Object) -> Key:
    return Key(obj.kind, obj.metadata.namespace if obj.namespaced else "", obj.metadata.name)


class SelectorRequirement(Read, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Read, frozen=True):
    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[SelectorRequirement, ...] = ()
