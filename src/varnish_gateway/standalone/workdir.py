"""The directory that the data planes of files work in.

In:   the directory that the user names with --work-dir, or None.
Out:  a directory that varnishd's own users may enter, locked; a temporary one is deleted at the end.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from varnish_gateway import errors
from varnish_gateway.dataplane.process.lock import exclusive
from varnish_gateway.dataplane.process.workdir import check_enterable


@contextlib.contextmanager
def work_directory(given: Path | None) -> Iterator[Path]:
    """Yield the directory; raise BadSettings if it can't be created or entered, or another process uses it."""
    if given is not None:
        directory = _prepared(given.absolute())
        with exclusive(directory, "--work-dir"):
            yield directory
        return
    directory = Path(tempfile.mkdtemp(prefix="vgw-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _prepared(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.BadSettings(f"--work-dir: can't create {directory}: {error.strerror}") from None
    check_enterable(directory, "--work-dir")
    return directory
