"""A configuration into ghost: files on disk, then a reload over the loopback socket.

In:   a Bundle, and where the reload socket is.
Out:  it is in force, or ReloadRefused with ghost's reason, or ConnectionError where the
world is at fault. What lies on disk is the last good configuration whenever a call has
failed, so that a worker which restarts by itself comes back with it.
"""

import re
from collections.abc import Callable
from pathlib import Path

from varnish_gateway import errors
from varnish_gateway.dataplane.ghost.files import Bundle
from varnish_gateway.dataplane.ghost.loopback import get
from varnish_gateway.dataplane.jsontext import read_json
from varnish_gateway.dataplane.process.workdir import write_readable
from varnish_gateway.dataplane.quarantine import Refused

RELOAD_SECONDS = 20.0
MOST_DEATHS = 2  # one may have had another cause
_SHARD_FILE = re.compile(r"(routing|endpoints)-\d+-[0-9a-f]{16}\.json")


class Installer:
    """Owns the directory of ghost.json. ``good`` is what ghost accepted last.

    ``wake`` is called when what was refused may be tried again.
    """

    def __init__(self, config_path: Path, wake: Callable[[], None]) -> None:
        self._config_path = config_path
        self._on_disk: set[str] = set()
        self._written: Bundle | None = None
        self._refused = Refused[str](wake)
        self._deadly = Refused[str](wake, costly=True)
        self._blamed: list[str] = []
        self._in_doubt = False  # whether ghost has read something other than what was good
        self.good: Bundle | None = None
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
        """Put bundle in force; return False if it was already."""
        if self.good is not None and bundle.id == self.good.id and not self._in_doubt:
            return False
        if (why := self._refused.why(bundle.id) or self._deadly.why(bundle.id)) is not None:
            raise errors.ReloadRefused(why)
        self.write(bundle)
        try:
            await self._reload(port)
        except (errors.ReloadRefused, OSError) as error:
            if isinstance(error, errors.ReloadRefused):
                self._refused.note(bundle.id, str(error))
            self.restore()
            raise
        self._refused.clear()
        self.accepted()
        return True

    async def have_read(self, port: int) -> None:
        """Have ghost read what is on disk, where that may be something other than what it has read."""
        if self._written is not self.good or self._in_doubt:
            await self._reload(port)

    async def _reload(self, port: int) -> None:
        """Ask for a reload. Where the answer is lost, nobody knows what ghost has read."""
        before, self._in_doubt = self._in_doubt, True
        try:
            await request_reload(port)
        except errors.ReloadRefused:
            self._in_doubt = before
            raise

    def forgive(self) -> None:
        """Try again what was refused: something other than itself has changed."""
        self._refused.forgive()
        self._deadly.forgive()

    def close(self) -> None:
        self._refused.close()
        self._deadly.close()

    def blame(self, bundle: Bundle) -> None:
        """Note that a worker died of bundle. One that kills the next as well is refused: each takes a cache along."""
        self._blamed = [*(each for each in self._blamed if each == bundle.id), bundle.id]
        if len(self._blamed) >= MOST_DEATHS:
            self._deadly.note(bundle.id, "varnishd's worker dies whenever it reads this configuration")

    def accepted(self) -> None:
        """Remember that ghost has read what is on disk; let go of everything else."""
        self.good, self._in_doubt = self._written, False
        if self.good is not None and self.good.id in self._blamed:
            self._blamed = []
            self._deadly.clear()
        self._sweep()

    def restore(self) -> None:
        """Put the last good configuration back on disk, for a worker that starts by itself."""
        if self.good is not None:
            self.write(self.good)
            self._sweep()

    def _sweep(self) -> None:
        named = self._written.files.keys() if self._written is not None else set()
        for name in self._on_disk - named:
            self._config_path.with_name(name).unlink(missing_ok=True)
        self._on_disk &= named


async def request_reload(port: int) -> None:
    """Ask ghost to read its configuration; raise ReloadRefused or ConnectionError."""
    status, headers, body = await get(port, "/.varnish-ghost/reload", RELOAD_SECONDS)
    if reason := headers.get("x-ghost-error"):
        raise errors.ReloadRefused(reason)
    if status == 503:
        raise ConnectionError("varnishd answered 503 to the reload")
    if status != 200:
        raise errors.ReloadRefused(f"the reload socket answered {status}; does the VCL call ghost.recv()?")
    try:
        read_json(body, object, "reload")
    except errors.BadDocument as error:
        raise errors.ReloadRefused("the reload socket answered something that is not ghost's") from error
