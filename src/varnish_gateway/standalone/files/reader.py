"""The user's files, as objects.

In:   paths of manifests that may have changed.
Out:  ``Changes`` of the objects that they define.
A file with unchanged bytes is not parsed again, unless the user asks for it.
"""

import hashlib
from collections.abc import Iterable

from varnish_gateway.standalone.files.manifests import Complaint, Reading, read_manifest
from varnish_gateway.standalone.files.objects import Changes, Objects
from varnish_gateway.standalone.schema import Catalogue


class Files:
    """Remembers what it has read."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.objects = Objects()
        self._catalogue = catalogue
        self._digests: dict[str, bytes] = {}

    def update(self, paths: Iterable[str], *, again: bool = False) -> Changes:
        """Read the files that changed, or all of them ``again``. Objects of a deleted file are deleted."""
        readings: dict[str, Reading | None] = {}
        for path in paths:
            try:
                with open(path, "rb") as file:  # noqa: PTH123  # a Path would cost more than the read
                    data = file.read()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                if self._digests.pop(path, None) is not None:
                    readings[path] = None
                continue
            except OSError as error:
                self._digests[path] = b""
                complaint = Complaint(path, 1, f"can't be read: {error.strerror}")
                readings[path] = Reading(unnamed=True, complaints=[complaint])
                continue
            digest = hashlib.blake2b(data, digest_size=16).digest()
            if again or self._digests.get(path) != digest:
                self._digests[path] = digest
                readings[path] = read_manifest(path, data, self._catalogue)
        return self.objects.update(readings)
