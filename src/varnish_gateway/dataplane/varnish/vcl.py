"""Load VCL into varnishd, use it, and discard old ones.

In:   the text of a VCL.
Out:  the VCL is in use, or VclRejected with the compiler's words about the user's own lines.
Text that is in use is not loaded again, and rejected text is quarantined. At most KEPT_VCLS old VCLs
stay, for requests in progress.
"""

import itertools
import re
from pathlib import Path

from varnish_gateway import errors
from varnish_gateway.dataplane.process.workdir import write_readable
from varnish_gateway.dataplane.quarantine import Quarantine
from varnish_gateway.dataplane.varnish.cli import Admin, CliError, CliStatus
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.emit.vcl import localise

KEPT_VCLS = 3
_FRAME = ("Message from VCC-compiler:", "Running VCC-compiler failed, exited with 2", "VCL compilation failed")


def digest(text: str) -> str:
    """Return the hash by which /ready names a VCL; the operator compares it with the hash of its own text."""
    return content_hash(text.encode())


class VclLoader:
    """Knows which of our VCLs the running varnishd holds. ``rejected`` holds the text that varnishd rejects."""

    def __init__(self, admin: Admin, directory: Path, rejected: Quarantine[str]) -> None:
        self._admin = admin
        self._directory = directory
        self._numbers = itertools.count(1)
        self._rejected = rejected
        self._text: str | None = None  # in use in the running varnishd
        self.active: str | None = None  # its name there
        self.last_good: str | None = None  # the last text that a worker ran with; survives a restart

    def forget(self) -> None:
        """Start over: a new varnishd holds no VCL."""
        self.active = self._text = None
        self._rejected.release()
        for path in self._directory.glob("*.vcl"):
            path.unlink()

    def release(self, text: str | None = None) -> None:
        """Let the rejected text be tried at once, or only this one: something beside the text changed."""
        self._rejected.release(text)

    def close(self) -> None:
        self._rejected.close()

    async def ensure(self, text: str) -> str | None:
        """Load and use a text; return its new name, None if it is in use already."""
        if text == self._text:
            return None
        if (reason := self._rejected.reason(text)) is not None:
            raise errors.VclRejected(reason)
        name = f"vgw-{next(self._numbers)}-{digest(text)}"
        path = self._directory / f"{name}.vcl"
        write_readable(path, text.encode())
        try:
            await self._admin.vcl_load(name, str(path))
            await self._admin.vcl_use(name)
        except CliError as error:
            path.unlink()
            if error.status in (CliStatus.COMMUNICATION, CliStatus.CLOSE):
                raise
            reason = _without_attempt(localise(_without_frame(error.text), text, str(path)), name, digest(text))
            self._rejected.reject(text, reason)
            raise errors.VclRejected(reason) from error
        self._rejected.clear()
        self._text, self.active = text, name
        return name

    def accepted(self) -> None:
        """Note that a worker runs with the VCL in use: without a worker, varnishd only compiles it."""
        self.last_good = self._text

    async def discard_old(self, kept: int = KEPT_VCLS) -> None:
        """Discard our oldest VCLs beyond ``kept``, and those that a failed vcl.use left."""
        ours = [entry for entry in await self._admin.vcl_list() if entry.name.startswith("vgw-")]
        old = [entry.name for entry in ours if entry.status == "available" and entry.labels == 0]
        for name in sorted(old, key=_number)[: max(0, len(old) - kept)]:
            await self._admin.vcl_discard(name)
            (self._directory / f"{name}.vcl").unlink(missing_ok=True)


def _without_frame(output: str) -> str:
    """Return the compiler's message without the lines that surround every message."""
    return "\n".join(line for line in output.splitlines() if line not in _FRAME).strip()


def _without_attempt(reason: str, name: str, stable: str) -> str:
    """Return a reason that is equal for every attempt: names and directories count attempts."""
    return re.sub(rf"(vcl_)?{re.escape(name)}(\.[0-9.]+[0-9])?", stable, reason)


def _number(name: str) -> int:
    return int(name.split("-")[1])
