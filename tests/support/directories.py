"""Directories that varnishd's users may enter, and files that are replaced atomically."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def open_directory() -> Iterator[Path]:
    """Give a temporary directory; those of pytest are closed to varnishd's users."""
    with tempfile.TemporaryDirectory(prefix="vgw-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def replace(path: Path, content: str | bytes) -> None:
    """Write as editors do: beside it, then by rename."""
    scratch = path.with_name(f".{path.name}.new")
    scratch.write_bytes(content.encode() if isinstance(content, str) else content)
    scratch.rename(path)
