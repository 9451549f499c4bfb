"""Find files and modules that a page names in `code` and that don't exist.

In:   Markdown pages.
Out:  one line for each name that leads nowhere.
A name counts if it starts with a directory of the tree, of the package or of ghost, or is a
dotted module of the package. VERSION, <kind>, {gateway} and … stand for anything, and {a,b} for either.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import links

ROOT = links.ROOT
PACKAGE = ROOT / "src" / "varnish_gateway"
BASES = (ROOT, PACKAGE, ROOT / "ghost")
NOT_IN_TREE = ("build", "dist", "target", "schemas")
"""Products of a build."""
SPAN = re.compile(r"`([^`\s]+)`")
PATH = re.compile(r"[\w.{},*<>…-]+(/[\w.{},*<>…-]*)+")
MODULE = re.compile(r"varnish_gateway(\.\w+)+")
ALTERNATIVES = re.compile(r"\{([^{}]*,[^{}]*)\}")
ANYTHING = re.compile(r"\b[A-Z]{4,}\b(?!\.md)|<[^>]+>|\{[^{},]+\}|…")


def cited(page: Path) -> Iterator[str]:
    """Yield the paths and modules that a page names."""
    for span in SPAN.findall(links.FENCED.sub("", page.read_text())):
        if MODULE.fullmatch(span) or (PATH.fullmatch(span) and _starts_in_tree(span)):
            yield span


def _starts_in_tree(path: str) -> bool:
    return any(_is_directory(base / Path(path).parts[0]) for base in BASES)


def _is_directory(path: Path) -> bool:
    return path.is_dir() and path.name not in NOT_IN_TREE and not path.name.startswith(".")


def exists(name: str) -> bool:
    """Whether a path or a module exists."""
    if MODULE.fullmatch(name):
        return _is_module(name.split("."))
    return all(_is_there(one) for one in _alternatives(name))


def _is_there(path: str) -> bool:
    pattern = ANYTHING.sub("*", path).strip("/")
    return any((base / path).exists() or any(base.glob(pattern)) for base in BASES)


def _alternatives(name: str) -> list[str]:
    found = ALTERNATIVES.search(name)
    if found is None:
        return [name]
    parts = [name[: found.start()] + part + name[found.end() :] for part in found[1].split(",")]
    return [one for part in parts for one in _alternatives(part)]


def _is_module(words: list[str]) -> bool:
    """Whether a module exists, or a name in one. The native module is a product of the build."""
    if words[1] == "_ghost":
        return True
    places = [PACKAGE.parent.joinpath(*words[:length]) for length in (len(words), len(words) - 1)]
    whole, parent = ((place.is_dir() or place.with_suffix(".py").exists()) for place in places)
    return whole or (
        parent and places[1].with_suffix(".py").exists() and words[-1] in places[1].with_suffix(".py").read_text()
    )


def missing(page: Path) -> list[str]:
    """Return what a page names and the tree lacks."""
    return [name for name in cited(page) if not exists(name)]
