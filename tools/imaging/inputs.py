"""What an image is built from, and its name.

In:   the tree.
Out:  a hash of everything that a build reads; the default image names of the chart.
"""

import hashlib
from pathlib import Path

import yaml

READ = ("LICENSE", "README.md", "pyproject.toml", "requirements", "ghost", "src", "images", ".containerignore")
"""What .containerignore admits, and the Containerfile itself."""
IGNORED = ("target", "__pycache__")


def digest(root: Path, *more: str) -> str:
    """Return a hash of the files that a build reads and of ``more`` inputs."""
    hashed = hashlib.sha256("\0".join(more).encode())
    for part in READ:
        top = root / part
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and path.suffix != ".so" and not set(path.relative_to(root).parts) & set(IGNORED):
                hashed.update(f"{path.relative_to(root)}\0{path.stat().st_mode:o}\0".encode() + path.read_bytes())
    return hashed.hexdigest()


def version(root: Path) -> str:
    return str(_chart(root, "Chart.yaml")["appVersion"])


def default_name(root: Path, image: str) -> str:
    """Return the name and tag of an image under the chart's default values."""
    described = _chart(root, "values.yaml")["images"][image]
    return f"{described['repository']}:{described['tag'] or version(root)}"


def _chart(root: Path, name: str) -> dict[str, dict[str, dict[str, str]]]:
    loaded: dict[str, dict[str, dict[str, str]]] = yaml.safe_load(
        (root / "charts" / "varnish-gateway" / name).read_text()
    )
    return loaded
