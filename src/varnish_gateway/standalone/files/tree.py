"""Find the manifest files under the user's paths.

In:   paths of files and directories.
Out:  manifests (*.yaml, *.yml, *.json), directories at any depth, symbolic links.
Hidden entries are skipped: editors and ConfigMap mounts use them for their own files.
"""

# ruff: noqa: PTH110, PTH112, PTH113, PTH114, PTH116  strings: with thousands of files Path objects cost more than the work on them

import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from varnish_gateway import errors
from varnish_gateway.standalone.files.manifests import SUFFIXES

log = logging.getLogger(__name__)


@dataclass
class Tree:
    """The content of the roots at one moment."""

    files: dict[str, None] = field(default_factory=dict)
    directories: dict[str, None] = field(default_factory=dict)
    links: dict[str, None] = field(default_factory=dict)  # also dangling ones


def check_roots(roots: Iterable[str]) -> None:
    """Raise BadSettings for a path that does not exist: most likely it is misspelt."""
    for root in roots:
        if not os.path.exists(root):
            raise errors.BadSettings(f"{root}: no such file or directory")
        if not os.path.isdir(root) and not root.endswith(SUFFIXES):
            raise errors.BadSettings(f"{root}: is not a manifest; its name has to end in {', '.join(SUFFIXES)}")


def scan(roots: Iterable[str]) -> Tree:
    """Return the manifests and directories under roots, each once."""
    tree, seen, linked = Tree(), set[tuple[int, int]](), list[str]()
    for root in roots:
        if os.path.islink(root):
            tree.links[root] = None
        if os.path.isdir(root):
            _descend(root, tree, seen, linked)
        elif os.path.isfile(root):
            tree.files[root] = None
    # Links come last, so that a new link does not rename a directory that was found before.
    while linked:
        _descend(linked.pop(0), tree, seen, linked)
    return tree


def _descend(directory: str, tree: Tree, seen: set[tuple[int, int]], linked: list[str]) -> None:
    """Add a directory unless it was added before; collect the symbolic links in it that lead to others."""
    try:
        status = os.stat(directory)
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except FileNotFoundError:
        return  # deleted since it was listed; the watcher reports it
    except OSError as error:
        log.error("can't list %s: %s", directory, error.strerror)  # noqa: TRY400  # no bug of ours
        return
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    tree.directories[directory] = None
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_symlink():
            tree.links[entry.path] = None
        if _holds(entry.is_dir):
            if entry.is_symlink():
                linked.append(entry.path)
            else:
                _descend(entry.path, tree, seen, linked)
        elif entry.name.endswith(SUFFIXES) and _holds(entry.is_file):
            tree.files[entry.path] = None


def _holds(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except OSError:
        return False  # a link that leads in a circle, or where we may not go


def is_manifest(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(".")
