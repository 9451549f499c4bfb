"""VCL into varnishd: load, use, and let go of old ones.

In:   the text of a VCL.
Out:  it is in use, or VclRejected with the compiler's words about the user's own lines.
The same text is loaded once: bytes that are in use are not loaded again, and those that were
refused are left alone for a while. At most KEPT_VCLS old ones stay, for requests still under way.
"""

import itertools
import re
from collections.abc import Callable
from pathlib import Path

from varnish_gateway import errors
from varnish_gateway.dataplane.process.workdir import write_readable
from varnish_gateway.dataplane.quarantine import Refused
from varnish_gateway.dataplane.varnish.cli import Admin, CliError, Status
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.emit.vcl import localise

KEPT_VCLS = 3
_FRAME = ("Message from VCC-compiler:", "Running VCC-compiler failed, exited with 2", "VCL compilation failed")


def digest(text: str) -> str:
    """Return the hash by which health names a VCL; the operator compares it with that of its own text."""
    return content_hash(text.encode())


class VclLoader:
    """Knows which VCLs of ours the present varnishd holds. ``wake`` is called when a refused one may be tried again."""

    def __init__(self, admin: Admin, directory: Path, wake: Callable[[], None]) -> None:
        self._admin = admin
        self._directory = directory
        self._numbers = itertools.count(1)
        self._refused = Refused[str](wake)
        self._text: str | None = None  # what is in use in the present varnishd
        self.active: str | None = None  # its name there
        self.good: str | None = None  # the last text that a worker ran with; survives a restart

    def forget(self) -> None:
        """Begin again: a new varnishd holds no VCL."""
        self.active = self._text = None
        self._refused.forgive()
        for path in self._directory.glob("*.vcl"):
            path.unlink()

    def forgive(self, text: str | None = None) -> None:
        """Try again what was refused, or this text alone: something other than the text has changed."""
        self._refused.forgive(text)

    def close(self) -> None:
        self._refused.close()

    async def put_in_use(self, text: str) -> str | None:
        """Load and use text; return its new name, None if there was nothing to do."""
        if text == self._text:
            return None
        if (why := self._refused.why(text)) is not None:
            raise errors.VclRejected(why)
        name = f"vgw-{next(self._numbers)}-{digest(text)}"
        path = self._directory / f"{name}.vcl"
        write_readable(path, text.encode())
        try:
            await self._admin.vcl_load(name, str(path))
            await self._admin.vcl_use(name)
        except CliError as error:
            path.unlink()
            if error.status in (Status.COMMUNICATION, Status.CLOSE):
                raise
            reason = _without_attempt(localise(_without_frame(error.text), text, str(path)), name, digest(text))
            self._refused.note(text, reason)
            raise errors.VclRejected(reason) from error
        self._refused.clear()
        self._text, self.active = text, name
        return name

    def accepted(self) -> None:
        """Remember that a worker runs with what is in use: without one, varnishd only compiles it."""
        self.good = self._text

    async def discard_old(self, kept: int = KEPT_VCLS) -> None:
        """Discard our oldest VCLs beyond those to be kept, and those that a failed vcl.use left."""
        ours = [entry for entry in await self._admin.vcl_list() if entry.name.startswith("vgw-")]
        old = [entry.name for entry in ours if entry.status == "available" and entry.labels == 0]
        for name in sorted(old, key=_number)[: max(0, len(old) - kept)]:
            await self._admin.vcl_discard(name)
            (self._directory / f"{name}.vcl").unlink(missing_ok=True)


def _without_frame(output: str) -> str:
    """Return what the compiler says, without what is said around every message of it."""
    return "\n".join(line for line in output.splitlines() if line not in _FRAME).strip()


def _without_attempt(reason: str, name: str, stable: str) -> str:
    """Return a reason that is the same whenever a VCL is refused for it: names and directories count attempts."""
    return re.sub(rf"(vcl_)?{re.escape(name)}(\.[0-9.]+[0-9])?", stable, reason)


def _number(name: str) -> int:
    return int(name.split("-")[1])
