"""The last configuration that served, on disk, for a start without an API server.

In:   the configuration in force, after every change.
Out:  files that a later process reads: the VCL, routing shards, pools of endpoints and TLS.

A change writes what it touches: files are named by the hash of their content, and ``last.json``, which
names them all, is replaced last and in one step. The reader checks content against its name. If the disk
lost something, there is no last good configuration.
"""

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from varnish_gateway import errors
from varnish_gateway.dataplane.change import InForce
from varnish_gateway.dataplane.ghost.files import Pools
from varnish_gateway.dataplane.process.workdir import write_private
from varnish_gateway.dataplane.tls.material import read_tls
from varnish_gateway.emit.names import TLS as TLS_JSON
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.emit.tls import encode_tls
from varnish_gateway.ir import Tls, wire

NAMES = "last.json"
_CONTENT_FILE = re.compile(
    r"((routing-(?P<shard>\d+)|endpoints-\d+|main|tls)-)?(?P<hash>[0-9a-f]{16})\.(json|vcl|pem|ca\.pem)"
)

log = logging.getLogger(__name__)


class LastGoodIndex(Struct, frozen=True, forbid_unknown_fields=True):
    """``owner`` is the ConfigMap that it came from; the configuration of another one is ignored."""

    version: Literal[1]
    owner: str
    vcl: str
    routing: tuple[str, ...]
    endpoints: tuple[str, ...]
    generation: str | None = None
    tls: str | None = None
    tls_files: tuple[str, ...] = ()


class SavedConfiguration(Struct, frozen=True):
    """What served last: the VCL, routing by shard, the endpoints of every pool, and certificates."""

    vcl: str
    routing: Mapping[int, bytes]
    pools: Pools
    generation: str | None
    tls: Tls | None = None


class LastGood:
    """Owns a directory."""

    def __init__(self, directory: Path, owner: str) -> None:
        self._directory = directory
        self._owner = owner
        self._on_disk: set[str] = set()
        self._written: LastGoodIndex | None = None
        self._tls: Tls | None = None
        self._tls_files: Mapping[str, bytes] = {}
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def load(self) -> SavedConfiguration | None:
        """Return what served last, None if nothing usable is on disk. Remove all other files."""
        try:
            last = self._read_names()
            contents = {} if last is None else {name: self._read(name) for name in _files(last)}
            saved = None if last is None else _saved(last, contents)
        except (
            OSError,
            ValueError,
            errors.BadDocument,
        ) as error:  # msgspec's errors and those of decoding are ValueErrors
            log.warning("the last configuration on disk is not usable: %s", error)
            last, saved, contents = None, None, {}
        self._written, self._on_disk = last, set(contents)
        self._update_tls(None if saved is None else saved.tls)
        self._sweep()
        return saved

    def save(self, in_force: InForce) -> None:
        """Write the configuration in force; cheap where little changed. A full disk is only logged."""
        vcl = in_force.vcl.encode()
        self._update_tls(in_force.tls)
        files = {**in_force.bundle.files, f"main-{content_hash(vcl)}.vcl": vcl, **self._tls_files}
        last = _names(files, self._owner, in_force.generation)
        if last == self._written:
            return
        try:
            for name in files.keys() - self._on_disk:
                write_private(self._directory / name, files[name])
                self._on_disk.add(name)
            write_private(self._directory / NAMES, msgspec.json.encode(last))
            self._written = last
            for name in self._on_disk - files.keys():
                (self._directory / name).unlink(missing_ok=True)
                self._on_disk.remove(name)
        except OSError as error:
            log.warning("can't keep the last configuration in %s: %s", self._directory, error.strerror)

    def _update_tls(self, tls: Tls | None) -> None:
        """Set the certificates. None: the TLS terminator has not applied them yet, and the last ones count."""
        if tls is not None and tls is not self._tls:
            self._tls, self._tls_files = tls, _tls_files(tls)

    def _read_names(self) -> LastGoodIndex | None:
        path = self._directory / NAMES
        if not path.exists():
            return None
        last = msgspec.json.decode(path.read_bytes(), type=LastGoodIndex)
        return last if last.owner == self._owner else None

    def _read(self, name: str) -> bytes:
        match = _CONTENT_FILE.fullmatch(name)
        if match is None:
            raise ValueError(f"{NAMES}: {name!r} is not the name of a file of ours")
        content = (self._directory / name).read_bytes()
        if content_hash(content) != match["hash"]:
            raise ValueError(f"{name} does not match its hash")
        return content

    def _sweep(self) -> None:
        try:
            for path in self._directory.iterdir():
                if path.name not in self._on_disk and (path.name != NAMES or self._written is None):
                    path.unlink()
        except OSError as error:
            log.warning("can't clean up in %s: %s", self._directory, error.strerror)


def _names(files: Mapping[str, bytes], owner: str, generation: str | None) -> LastGoodIndex:
    def of(kind: str) -> tuple[str, ...]:
        return tuple(name for name in files if name.startswith(f"{kind}-"))

    (vcl,) = of("main")
    pems = tuple(name for name in files if name.endswith(".pem"))
    return LastGoodIndex(1, owner, vcl, of("routing"), of("endpoints"), generation, next(iter(of("tls")), None), pems)


def _tls_files(tls: Tls) -> dict[str, bytes]:
    document = encode_tls(tls)
    return {f"tls-{content_hash(document)}.json": document, **tls.files}


def _files(last: LastGoodIndex) -> tuple[str, ...]:
    return (last.vcl, *last.routing, *last.endpoints, *((last.tls,) if last.tls else ()), *last.tls_files)


def _saved(last: LastGoodIndex, contents: Mapping[str, bytes]) -> SavedConfiguration:
    pools: Pools = {}
    for name in last.endpoints:
        pools |= msgspec.json.decode(contents[name], type=wire.Endpoints).pools
    routing = {_shard(name): contents[name] for name in last.routing}
    tls = None
    if last.tls is not None:
        tls = read_tls({**contents, TLS_JSON: contents[last.tls]}, NAMES)
    return SavedConfiguration(contents[last.vcl].decode(), routing, pools, last.generation, tls)


def _shard(name: str) -> int:
    match = _CONTENT_FILE.fullmatch(name)
    if match is None or match["shard"] is None:
        raise ValueError(f"{NAMES}: {name!r} is not the name of a routing shard")
    return int(match["shard"])
