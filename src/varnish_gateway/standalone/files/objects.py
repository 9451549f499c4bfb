"""The objects that a set of files defines.

In:   the new content of each changed file, None for a deleted one.
Out:  ``Changes``: objects that are new, different or deleted, and complaints.
Pure. Promises:
- An invalid document freezes its own object. A file that can't be read, or that has a document
  without a kind or name, freezes all objects last read from it.
- If several files define an object, the first one by name owns it, whatever order they appeared in.
  When that file drops the object, the next one owns it.
- A Gateway whose class no file defines is complained about, and so is what a valid object says in vain.
- Every namespace in use exists and has the label that Kubernetes gives it.
- ``metadata.generation`` counts changes outside metadata, unless the document sets it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping
from dataclasses import dataclass, field
from itertools import chain

import msgspec

from varnish_gateway.api import Key, Namespace, Object
from varnish_gateway.api.meta import Metadata
from varnish_gateway.standalone.files import classes
from varnish_gateway.standalone.files.manifests import Complaint, Found, Reading
from varnish_gateway.standalone.files.review import Review

NAMESPACE_LABEL = "kubernetes.io/metadata.name"


@dataclass
class Changes:
    """The objects and complaints that follow from changed files."""

    objects: dict[Key, Object | None] = field(default_factory=dict)
    complaints: list[Complaint] = field(default_factory=list)  # new ones; ``Objects.complaints`` has all
    ignored: list[Complaint] = field(default_factory=list)  # what is read in vain; each kind once per process


class Objects:
    """Remembers what each file defines."""

    def __init__(self) -> None:
        self._files: dict[str, dict[Key, Found]] = {}
        self._owners: dict[Key, set[str]] = {}  # files that define an object; the first by name counts
        self._in_force: dict[Key, Object] = {}
        self._namespaces: Counter[str] = Counter()  # objects in force by namespace
        self._ignored: set[str] = set()
        self._complaints: dict[str, list[Complaint]] = {}  # about the text of each file
        self._duplicates: dict[Key, list[Complaint]] = {}
        self._gateways_and_classes: dict[Key, Object] = {}  # of those in force
        self._unclassed: dict[Key, Complaint] = {}
        self._review = Review()

    @property
    def complaints(self) -> list[Complaint]:
        """Everything that the user has to correct now, in the order of files and lines."""
        found = chain(*self._complaints.values(), *self._duplicates.values(), self._unclassed.values())
        return sorted(found, key=lambda complaint: (complaint.file, complaint.line))

    @property
    def findings(self) -> list[Complaint]:
        """What valid objects say in vain, in the order of files and lines."""
        found = (self._finding(key, text) for key, texts in self._review.findings.items() for text in texts)
        return sorted(found, key=lambda complaint: (complaint.file, complaint.line))

    @property
    def unclassed(self) -> KeysView[Key]:
        """The Gateways that name a class which no file defines."""
        return self._unclassed.keys()

    def place(self, key: Key) -> str:
        """Return the file and the line of an object in force."""
        owner = self._owner(key)
        return f"{owner}:{self._files[owner][key].line}"

    def update(self, readings: Mapping[str, Reading | None]) -> Changes:
        """Apply all changed files before comparing objects, so that a renamed file is no duplicate."""
        changes = Changes()
        touched: dict[Key, None] = {}
        for name, reading in readings.items():
            touched.update(dict.fromkeys(self._put(name, reading)))
        namespaces: dict[str, None] = {}
        for key in touched:
            self._put_in_force(key, changes, namespaces)
        for namespace in namespaces:
            self._put_in_force(Key("Namespace", "", namespace), changes, {})
        for name, reading in readings.items():
            self._complain(name, reading, changes)
        changes.complaints += self._new_duplicates(touched, readings)
        changes.complaints += self._newly_unclassed(touched)
        changes.ignored += [self._finding(key, text) for key, text in self._review.update(changes.objects)]
        return changes

    def _put(self, name: str, reading: Reading | None) -> list[Key]:
        """Store what a file defines now; return the keys whose objects may have changed."""
        before = self._files.get(name, {})
        now = self._defined_now(before, reading)
        for key in before.keys() - now.keys():
            self._owners[key].remove(name)
        for key in now.keys() - before.keys():
            self._owners.setdefault(key, set()).add(name)
        if now:
            self._files[name] = now
        else:
            self._files.pop(name, None)
        return [*before, *(key for key in now if key not in before)]

    @staticmethod
    def _defined_now(before: Mapping[Key, Found], reading: Reading | None) -> dict[Key, Found]:
        if reading is None:
            return {}
        frozen = before.keys() if reading.unnamed else before.keys() & reading.broken
        kept = {key: before[key] for key in before if key in frozen}
        return {**kept, **reading.objects}

    def _put_in_force(self, key: Key, changes: Changes, namespaces: dict[str, None]) -> None:
        """Put the desired object in force, or remove it; record a difference."""
        before, now = self._in_force.get(key), self._desired(key)
        if now is not None:
            now = _counted(now, before)
        if now == before:
            return
        changes.objects[key] = now
        if now is None:
            del self._in_force[key]
            self._gateways_and_classes.pop(key, None)
        else:
            self._in_force[key] = now
            if key.kind in classes.KINDS:
                self._gateways_and_classes[key] = now
        if key.namespace:
            self._namespaces[key.namespace] += (now is not None) - (before is not None)
            namespaces[key.namespace] = None

    def _desired(self, key: Key) -> Object | None:
        """Return the object that should be in force; a namespace in use always exists."""
        if not self._owners.get(key):
            self._owners.pop(key, None)
            if key.kind == "Namespace" and self._namespaces[key.name] > 0:
                return _namespace(Metadata(name=key.name))
            return None
        obj = self._files[self._owner(key)][key].obj
        return _namespace(obj.metadata) if key.kind == "Namespace" else obj

    def _owner(self, key: Key) -> str:
        """Return the file whose object counts. The name decides, because the order of appearance leaves no trace."""
        return min(self._owners[key])

    def _complain(self, name: str, reading: Reading | None, changes: Changes) -> None:
        self._complaints.pop(name, None)
        if reading is None:
            return
        if reading.complaints:
            self._complaints[name] = reading.complaints
            changes.complaints += reading.complaints
        for kind, complaint in reading.ignored.items():
            if kind not in self._ignored:
                self._ignored.add(kind)
                changes.ignored.append(complaint)

    def _new_duplicates(self, touched: Iterable[Key], read: Collection[str]) -> Iterator[Complaint]:
        """Update the complaints about objects that several files define; return those about new definitions."""
        for key in touched:
            before = self._duplicates.pop(key, [])
            if now := self._duplicates_of(key):
                self._duplicates[key] = now
                yield from (complaint for complaint in now if complaint.file in read or complaint not in before)

    def _duplicates_of(self, key: Key) -> list[Complaint]:
        first, *others = sorted(self._owners.get(key, ())) or [""]
        return [
            self._complaint(
                name,
                key,
                f"is already defined at {first}:{self._files[first][key].line};"
                " that one stays, because its file comes first by name; remove one of the two",
            )
            for name in others
        ]

    def _newly_unclassed(self, touched: Iterable[Key]) -> list[Complaint]:
        """Update the complaints about the classes of Gateways; return new ones."""
        if not any(key.kind in classes.KINDS for key in touched):
            return []
        before = self._unclassed
        self._unclassed = {
            key: self._complaint(self._owner(key), key, message, classes.FIELD)
            for key, message in classes.unknown_classes(self._gateways_and_classes).items()
        }
        return [complaint for key, complaint in self._unclassed.items() if before.get(key) != complaint]

    def _finding(self, key: Key, text: str) -> Complaint:
        return self._complaint(self._owner(key), key, text)

    def _complaint(self, file: str, key: Key, message: str, field_name: str = "") -> Complaint:
        return Complaint(file, self._files[file][key].line, message, object=str(key), field=field_name)


def _namespace(metadata: Metadata) -> Namespace:
    labels = {**metadata.labels, NAMESPACE_LABEL: metadata.name}
    return Namespace(metadata=msgspec.structs.replace(metadata, labels=labels))


def _counted(now: Object, before: Object | None) -> Object:
    """Return the object with its generation, unless its document sets one."""
    if now.metadata.generation:
        return now
    generation = 1
    if before is not None:
        same_content = msgspec.structs.replace(now, metadata=before.metadata) == before
        generation = before.metadata.generation + (not same_content)
    metadata = msgspec.structs.replace(now.metadata, generation=generation)
    return msgspec.structs.replace(now, metadata=metadata)
