"""Check every link between files of the tree.

In:   the Markdown files that git knows, or would add.
Out:  one line for each link whose file or heading does not exist; exit status 1 if there is any.
Anchors follow GitHub's rules, and the site uses the same ones.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z]+:")


def pages(root: Path = ROOT) -> list[Path]:
    """Return the Markdown files of the tree."""
    command = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [root / name for name in names if (root / name).is_file()]


def outside_code(text: str, edit: Callable[[str], str]) -> str:
    """Return the text with ``edit`` applied to everything but fenced code."""
    parts, end = [], 0
    for block in FENCED.finditer(text):
        parts += [edit(text[end : block.start()]), block.group()]
        end = block.end()
    return "".join([*parts, edit(text[end:])])


def slug(heading: str, separator: str = "-") -> str:
    """Return the anchor of a heading: lower case, without punctuation, a hyphen for each space."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", words).strip().lower().replace(" ", separator)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    return {slug(heading) for heading in HEADING.findall(FENCED.sub("", page.read_text()))}


def links(page: Path) -> list[str]:
    """Return the targets of a page's links to this tree."""
    found = [target for _, target, _ in LINK.findall(FENCED.sub("", page.read_text()))]
    return [target for target in found if not ELSEWHERE.match(target)]


def broken(page: Path, root: Path = ROOT) -> Iterator[str]:
    """Yield what is wrong with the links of a page."""
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{page.relative_to(root)}: {link}: there is no such file"
        elif not target.is_relative_to(root):
            yield f"{page.relative_to(root)}: {link}: is outside of the tree"
        elif anchor and (target.suffix != ".md" or anchor not in anchors(target)):
            yield f"{page.relative_to(root)}: {link}: there is no such heading"


def main() -> int:
    wrong = [line for page in pages() for line in broken(page)]
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
