"""Install a configuration in ghost: files on disk, then a reload over the loopback socket.

In:   a Bundle, and the port of the reload socket.
Out:  the bundle is in force, or ReloadRejected with ghost's reason, or ConnectionError for a fault.
After a failed call the disk holds the last good configuration, so that a worker which varnishd restarts
reads that one.
"""

import re
from pathlib import Path

from varnish_gateway import errors
from varnish_gateway.dataplane.ghost.files import Bundle
from varnish_gateway.dataplane.ghost.loopback import get
from varnish_gateway.dataplane.jsontext import read_json
from varnish_gateway.dataplane.process.workdir import write_readable
from varnish_gateway.dataplane.quarantine import Quarantine

RELOAD_SECONDS = 20.0
MOST_DEATHS = 2  # one may have had another cause
_SHARD_FILE = re.compile(r"(routing|endpoints)-\d+-[0-9a-f]{16}\.json")


class GhostInstaller:
    """Owns the directory of ghost.json. ``last_good`` is the bundle that ghost accepted last.

    ``rejected`` holds what ghost rejects, ``deadly`` what kills workers: each of those costs a cache.
    """

    def __init__(self, config_path: Path, rejected: Quarantine[str], deadly: Quarantine[str]) -> None:
        self._config_path = config_path
        self._on_disk: set[str] = set()
        self._written: Bundle | None = None
        self._rejected = rejected
        self._deadly = deadly
        self._blamed: list[str] = []
        self._is_stale = False  # whether ghost may have read something other than the last good bundle
        self.last_good: Bundle | None = None
        for path in config_path.parent.iterdir():
            if _SHARD_FILE.fullmatch(path.name):
                path.unlink()

    def write(self, bundle: Bundle) -> bool:
        """Write new files first and the manifest last; False if it is there already."""
        if self._written is not None and bundle.id == self._written.id:
            return False
        for name in bundle.files.keys() - self._on_disk:
            write_readable(self._config_path.with_name(name), bundle.files[name])
        self._on_disk |= bundle.files.keys()
        write_readable(self._config_path, bundle.manifest)
        self._written = bundle
        return True

    async def install(self, bundle: Bundle, port: int) -> bool:
        """Put a bundle in force; return False if it was already."""
        if self.last_good is not None and bundle.id == self.last_good.id and not self._is_stale:
            return False
        if (reason := self._rejected.reason(bundle.id) or self._deadly.reason(bundle.id)) is not None:
            raise errors.ReloadRejected(reason)
        self.write(bundle)
        try:
            await self._reload(port)
        except (errors.ReloadRejected, OSError) as error:
            if isinstance(error, errors.ReloadRejected):
                self._rejected.reject(bundle.id, str(error))
            self.restore()
            raise
        self._rejected.clear()
        self.accepted()
        return True

    async def ensure_read(self, port: int) -> None:
        """Reload if ghost may have read something other than the files on disk."""
        if self._written is not self.last_good or self._is_stale:
            await self._reload(port)

    async def _reload(self, port: int) -> None:
        """Ask for a reload. After a lost answer it is unknown what ghost has read."""
        before, self._is_stale = self._is_stale, True
        try:
            await request_reload(port)
        except errors.ReloadRejected:
            self._is_stale = before
            raise

    def release(self) -> None:
        """Let what was rejected be tried at once: something beside it changed."""
        self._rejected.release()
        self._deadly.release()

    def close(self) -> None:
        self._rejected.close()
        self._deadly.close()

    def blame(self, bundle: Bundle) -> None:
        """Note that a worker died while it read a bundle. One that kills two workers is quarantined."""
        self._blamed = [*(each for each in self._blamed if each == bundle.id), bundle.id]
        if len(self._blamed) >= MOST_DEATHS:
            self._deadly.reject(bundle.id, "varnishd's worker dies whenever it reads this configuration")

    def accepted(self) -> None:
        """Note that ghost has read the files on disk; remove all others."""
        self.last_good, self._is_stale = self._written, False
        if self.last_good is not None and self.last_good.id in self._blamed:
            self._blamed = []
            self._deadly.clear()
        self._sweep()

    def restore(self) -> None:
        """Write the last good configuration to disk again, for a worker that varnishd restarts."""
        if self.last_good is not None:
            self.write(self.last_good)
            self._sweep()

    def _sweep(self) -> None:
        named = self._written.files.keys() if self._written is not None else set()
        for name in self._on_disk - named:
            self._config_path.with_name(name).unlink(missing_ok=True)
        self._on_disk &= named


async def request_reload(port: int) -> None:
    """Ask ghost to read its configuration; raise ReloadRejected or ConnectionError."""
    status, headers, body = await get(port, "/.varnish-ghost/reload", RELOAD_SECONDS)
    if reason := headers.get("x-ghost-error"):
        raise errors.ReloadRejected(reason)
    if status == 503:
        raise ConnectionError("varnishd answered 503 to the reload")
    if status != 200:
        raise errors.ReloadRejected(f"the reload socket answered {status}; does the VCL call ghost.recv()?")
    try:
        read_json(body, object, "reload")
    except errors.BadDocument as error:
        raise errors.ReloadRejected("the reload socket answered something that is not ghost's") from error
