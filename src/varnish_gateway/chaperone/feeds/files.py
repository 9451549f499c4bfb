"""A chaperone that runs from plain files.

In:   VCL_PATH, ROUTING_CONFIG_PATH (version 1 or 2), ENDPOINTS_PATH (EndpointSlices as YAML
or JSON, a file or a directory), TLS_CERT_DIR (tls.json and what it names); or, without a routing
file, a GHOST_CONFIG_PATH that a user wrote by hand.
Out:  ``read`` returns the Change since the last call. A file that is half written or wrong is logged
once and keeps its last good content until it changes. The result depends on the files alone, and not
on the order in which they appeared.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple, TypeVar

import yaml

from varnish_gateway import errors
from varnish_gateway.api import EndpointSlice, Key, key_of
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.ghost.files import Bundle
from varnish_gateway.dataplane.ghost.join import unserved_reason
from varnish_gateway.dataplane.ghost.version1 import hand_written, routing_shard
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.tls.material import file_names, read_ports
from varnish_gateway.decoding import decode
from varnish_gateway.emit.names import TLS as TLS_JSON
from varnish_gateway.ir import Tls
from varnish_gateway.runtime.paths import below

MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")

log = logging.getLogger(__name__)

T = TypeVar("T")
_Slices = dict[Key, EndpointSlice]


class Stamp(NamedTuple):
    """Attributes of a file that change with its content."""

    inode: int
    size: int
    modified: int


class SliceFiles:
    """The EndpointSlices of many files. Where several define the same one, the last one by path counts."""

    def __init__(self) -> None:
        self._slices: dict[Path, _Slices] = {}
        self._paths: dict[Key, set[Path]] = {}  # the files that define a slice

    @property
    def paths(self) -> AbstractSet[Path]:
        """The files that define any."""
        return self._slices.keys()

    def get(self, key: Key) -> EndpointSlice | None:
        paths = self._paths.get(key)
        return None if paths is None else self._slices[max(paths)][key]

    def replace(self, path: Path, slices: _Slices) -> set[Key]:
        """Set the slices of a file; return the keys of slices that may have changed."""
        before = self._slices.pop(path, {})
        if slices:
            self._slices[path] = slices
        for key in before.keys() - slices.keys():
            self._paths[key].discard(path)
            if not self._paths[key]:
                del self._paths[key]
        for key in slices:
            self._paths.setdefault(key, set()).add(path)
        return before.keys() | slices.keys()


class FileFeed:
    """``by_hand``: a user writes ghost's configuration himself; decided at the start."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stamps: dict[Path, Stamp | None] = {}
        self._slices = SliceFiles()
        self._tls: Tls | None = None
        self.forgotten = asyncio.Event()
        self.by_hand = not _exists(settings.routing_path) and _exists(settings.ghost_config_path)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files and directories to watch."""
        paths = [self._settings.vcl_path, self._settings.routing_path, self._settings.endpoints_path]
        paths.append(self._settings.tls_cert_dir)
        if self.by_hand:
            paths.append(self._settings.ghost_config_path)
        return tuple(path for path in paths if path is not None)

    def read(self) -> Change:
        """Return what changed since the last call."""
        return Change(
            vcl=self._read_vcl(),
            routing=self._read_routing(),
            slices=self._read_slices(),
            bundle=self._read_by_hand(),
            tls=self._read_tls(),
        )

    def forget(self) -> None:
        """Make the next ``read`` read every file, also those that seem unchanged."""
        log.info("reading all files again")
        self._stamps.clear()
        self._tls = None
        self.forgotten.set()

    def _read_vcl(self) -> str | None:
        content = self._changed_content(self._settings.vcl_path)
        return None if content is None else content.decode(errors="replace")

    def _read_routing(self) -> dict[int, bytes | None]:
        path = self._settings.routing_path
        if path is None:
            return {}
        content = self._changed_content(path)
        if content is None:
            return {}
        shard = _or_log(lambda: routing_shard(content, str(path), self._settings.namespace))
        return {} if shard is None else {0: shard[0]}

    def _read_by_hand(self) -> Bundle | None:
        path = self._settings.ghost_config_path
        if path is None or not self.by_hand or not path.exists():
            return None
        # The files that a manifest names may change without it: they are read each time.
        return _or_log(lambda: hand_written(path.read_bytes(), str(path), lambda name: _beside(path, name)))

    def _read_tls(self) -> Tls | None:
        directory = self._settings.tls_cert_dir
        if directory is None or not (directory / TLS_JSON).exists():
            return None
        # Here names need not hold a hash: files may change without tls.json, and are read each time.
        tls = _or_log(lambda: _tls_of(directory))
        if tls is None or tls == self._tls:
            return None
        self._tls = tls
        return tls

    def _read_slices(self) -> dict[Key, EndpointSlice | None]:
        present = set(_manifests(self._settings.endpoints_path))
        touched: set[Key] = set()
        for path in self._slices.paths - present:
            touched |= self._slices.replace(path, {})
            self._stamps.pop(path, None)
        for path in present:
            touched |= self._read_manifest(path)
        return {key: self._slices.get(key) for key in touched}

    def _read_manifest(self, path: Path) -> set[Key]:
        content = self._changed_content(path)
        if content is None:
            return set()
        slices = _or_log(lambda: parse_slices(content, str(path)))
        return set() if slices is None else self._slices.replace(path, slices)

    def _changed_content(self, path: Path | None) -> bytes | None:
        """Return a file's content if the file was replaced or written since the last read."""
        if path is None:
            return None
        try:
            status = path.stat()
            stamp = Stamp(status.st_ino, status.st_size, status.st_mtime_ns)
            if self._stamps.get(path) == stamp:
                return None
            content = path.read_bytes()
        except OSError as error:
            if self._stamps.get(path, path) is not None:
                log.warning("can't read %s: %s", path, error.strerror)
            self._stamps[path] = None
            return None
        self._stamps[path] = stamp
        return content


def parse_slices(content: bytes, source: str) -> _Slices:
    """Return the EndpointSlices of a file with any number of documents, also in Lists."""
    try:
        documents = list(yaml.load_all(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError as error:
        raise errors.BadDocument(f"{source}: {error}") from error
    slices: _Slices = {}
    for document in _flatten(documents):
        try:
            decoded = decode(document)
        except errors.InvalidInput as error:
            raise errors.BadDocument(f"{source}: {error}") from error
        if isinstance(decoded, EndpointSlice):
            slices[key_of(decoded)] = decoded
            if reason := unserved_reason(decoded):
                log.warning("%s: EndpointSlice %s is left out: %s", source, decoded.metadata.name, reason)
    return slices


def _flatten(documents: list[object]) -> Iterator[dict[str, object]]:
    for document in documents:
        if isinstance(document, dict):
            items = document.get("items") if str(document.get("kind", "")).endswith("List") else [document]
            yield from items or ()
        elif document is not None:
            raise errors.BadDocument("a document is not a mapping")


def _or_log(parse: Callable[[], T]) -> T | None:
    """Return what ``parse`` returns; log bad input and return None, which changes nothing."""
    try:
        return parse()
    except (errors.InvalidInput, OSError) as error:
        log.error("%s; the last good content stays", error)  # noqa: TRY400 - a person's mistake needs no traceback
        return None


def _manifests(path: Path | None) -> list[Path]:
    if path is None:
        return []
    if path.is_dir():
        return [Path(entry.path) for entry in below(str(path)) if _is_manifest(entry)]
    return [path] if path.exists() else []


def _is_manifest(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(MANIFEST_SUFFIXES) and not entry.is_dir(follow_symlinks=False)


def _tls_of(directory: Path) -> Tls:
    ports = read_ports((directory / TLS_JSON).read_bytes(), str(directory))
    return Tls(ports, {name: (directory / name).read_bytes() for name in file_names(ports)})


def _beside(path: Path, name: str) -> bytes:
    return path.with_name(name).read_bytes()


def _exists(path: Path | None) -> bool:
    return path is not None and path.exists()
