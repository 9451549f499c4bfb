"""The directory that the data planes of files work in.

In:   the directory that the user names with --work-dir, or None.
Out:  a directory that varnishd's own users may enter, locked; a temporary one is deleted at the end.
      Private keys that a killed process left behind are deleted at the start: in the given directory, and
      in temporary ones that no process holds any more.
"""

import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from varnish_gateway import errors
from varnish_gateway.dataplane.process.lock import exclusive, is_abandoned
from varnish_gateway.dataplane.process.workdir import check_enterable
from varnish_gateway.dataplane.tls.store import remove_leftover_keys

PREFIX = "vgw-run-"

log = logging.getLogger(__name__)


@contextlib.contextmanager
def work_directory(given: Path | None) -> Iterator[Path]:
    """Yield the directory; raise BadSettings if it can't be created or entered, or another process uses it."""
    _delete_abandoned(Path(tempfile.gettempdir()))
    if given is not None:
        directory = _prepared(given.absolute())
        with exclusive(directory, "--work-dir"):
            for of_gateway in directory.iterdir():
                remove_leftover_keys(of_gateway)
            yield directory
        return
    directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    directory.chmod(0o755)
    try:
        with exclusive(directory, "TMPDIR"):
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _delete_abandoned(parent: Path) -> None:
    """Delete temporary directories of ours whose process was killed: they may hold private keys."""
    for directory in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another process deletes it at this moment
            if directory.lstat().st_uid == os.geteuid() and is_abandoned(directory):
                log.warning("deleting %s, which a killed vgw run left behind", directory)
                shutil.rmtree(directory, ignore_errors=True)


def _prepared(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.BadSettings(f"--work-dir: can't create {directory}: {error.strerror}") from None
    check_enterable(directory, "--work-dir")
    return directory
