"""A chaperone that runs from plain files.

In:   VCL_PATH, ROUTING_CONFIG_PATH (version 1 or 2), ENDPOINTS_PATH (EndpointSlices as YAML
or JSON, a file or a directory), TLS_CERT_DIR (tls.json and what it names); or, without a routing
file, a GHOST_CONFIG_PATH that somebody wrote by hand.
Out:  ``read`` returns the Change since the last call. A file that is half written or wrong
is told once and keeps its last good content until it changes.
"""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import yaml

from varnish_gateway import errors
from varnish_gateway.api import EndpointSlice, Key, decode, key_of
from varnish_gateway.chaperone.change import Change
from varnish_gateway.chaperone.ghostfiles import Bundle
from varnish_gateway.chaperone.join import unserved_reason
from varnish_gateway.chaperone.settings import Settings
from varnish_gateway.chaperone.tls.material import TLS_JSON, file_names, read_ports
from varnish_gateway.chaperone.version1 import hand_written, routing_shard
from varnish_gateway.ir import Tls

MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")

log = logging.getLogger(__name__)

T = TypeVar("T")
_Slices = dict[Key, EndpointSlice]


class Stamp(NamedTuple):
    """What of a file changes when its content does."""

    inode: int
    size: int
    modified: int


class PlainFiles:
    """``by_hand`` says whether ghost's configuration is somebody's own; decided at the start."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stamps: dict[Path, Stamp | None] = {}
        self._slices: dict[Path, _Slices] = {}
        self._tls: Tls | None = None
        self.by_hand = not _exists(settings.routing_path) and _exists(settings.ghost_config_path)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Everything that is worth watching."""
        told = [self._settings.vcl_path, self._settings.routing_path, self._settings.endpoints_path]
        told.append(self._settings.tls_cert_dir)
        if self.by_hand:
            told.append(self._settings.ghost_config_path)
        return tuple(path for path in told if path is not None)

    def read(self) -> Change:
        """Return what changed since the last call."""
        return Change(
            vcl=self._read_vcl(),
            routing=self._read_routing(),
            slices=self._read_slices(),
            bundle=self._read_by_hand(),
            tls=self._read_tls(),
        )

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
        shard = _told(lambda: routing_shard(content, str(path), self._settings.namespace))
        return {} if shard is None else {0: shard[0]}

    def _read_by_hand(self) -> Bundle | None:
        path = self._settings.ghost_config_path
        if path is None or not self.by_hand or not path.exists():
            return None
        # The files that a manifest names may change without it: they are read each time.
        return _told(lambda: hand_written(path.read_bytes(), str(path), lambda name: _beside(path, name)))

    def _read_tls(self) -> Tls | None:
        directory = self._settings.tls_cert_dir
        if directory is None or not (directory / TLS_JSON).exists():
            return None
        # Here names need not tell the content: the files may change without tls.json, and are read each time.
        tls = _told(lambda: _tls_of(directory))
        if tls is None or tls == self._tls:
            return None
        self._tls = tls
        return tls

    def _read_slices(self) -> dict[Key, EndpointSlice | None]:
        before = {key for slices in self._slices.values() for key in slices}
        present = set(_manifests(self._settings.endpoints_path))
        changed: dict[Key, EndpointSlice | None] = {}
        for path in self._slices.keys() - present:
            changed |= dict.fromkeys(self._slices.pop(path))
            self._stamps.pop(path, None)
        for path in sorted(present):
            changed |= self._read_manifest(path)
        after = {key for slices in self._slices.values() for key in slices}
        return changed | dict.fromkeys(before - after)

    def _read_manifest(self, path: Path) -> dict[Key, EndpointSlice | None]:
        content = self._changed_content(path)
        if content is None:
            return {}
        slices = _told(lambda: parse_slices(content, str(path)))
        if slices is None:
            return {}
        gone: dict[Key, EndpointSlice | None] = dict.fromkeys(self._slices.get(path, {}))
        self._slices[path] = slices
        return {**gone, **slices}

    def _changed_content(self, path: Path | None) -> bytes | None:
        """Return a file's content if it is another file, or was written, since we read it."""
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


def _told(parse: Callable[[], T]) -> T | None:
    """Return what parse returns; bad input is told to a person and leaves things as they are."""
    try:
        return parse()
    except (errors.InvalidInput, OSError) as error:
        log.error("%s; the last good content stays", error)  # noqa: TRY400 - a person's mistake needs no traceback
        return None


def _manifests(path: Path | None) -> list[Path]:
    if path is None:
        return []
    if path.is_dir():
        return [child for child in path.rglob("*") if child.suffix in MANIFEST_SUFFIXES and not _hidden(child, path)]
    return [path] if path.exists() else []


def _hidden(child: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in child.relative_to(root).parts)


def _tls_of(directory: Path) -> Tls:
    ports = read_ports((directory / TLS_JSON).read_bytes(), str(directory))
    return Tls(ports, {name: (directory / name).read_bytes() for name in file_names(ports)})


def _beside(path: Path, name: str) -> bytes:
    return path.with_name(name).read_bytes()


def _exists(path: Path | None) -> bool:
    return path is not None and path.exists()
