"""Build the images of the previous version, the commit that .previous names, from git history.

In:   .previous, and the history of this clone.
Out:  build/previous: that version's tree with its chart and, in build/images, its two images. The tag of both is
      "previous", so that they lie beside those of this version.

A cache outside the tree keeps them by commit: they are built once, with the tools of that commit.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = ROOT / "build" / "previous"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "varnish-gateway" / "previous"
TAG = "previous"
IMAGES = ("operator", "gateway")


def main() -> int:
    commit = (ROOT / ".previous").read_text().strip()
    tree = CACHE / commit
    try:
        if not all((tree / "build" / "images" / f"{image}.tar").exists() for image in IMAGES):
            print(f"building the images of the previous version, {commit[:12]}: five minutes, once", flush=True)
            _extract(commit, tree)
            _build(tree)
    except RuntimeError as error:
        print(f"build_previous: {error}", file=sys.stderr)
        return 1
    LINK.parent.mkdir(exist_ok=True)
    LINK.unlink(missing_ok=True)
    LINK.symlink_to(tree)
    return 0


def _extract(commit: str, tree: Path) -> None:
    """Put the tree of the commit where it stays, with other names for its images."""
    archived = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if archived.returncode:
        remedy = "a shallow clone lacks history: git fetch --unshallow"
        raise RuntimeError(f"no commit {commit}, which .previous names ({archived.stderr.decode().strip()}); {remedy}")
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    subprocess.run(["tar", "--extract", "--directory", tree], input=archived.stdout, check=True)
    values = tree / "charts" / "varnish-gateway" / "values.yaml"
    text = values.read_text()
    if text.count('tag: ""') != len(IMAGES):
        raise RuntimeError(f"{values} doesn't name the tags of {len(IMAGES)} images as expected")
    values.write_text(text.replace('tag: ""', f"tag: {TAG}"))


def _build(tree: Path) -> None:
    done = subprocess.run([sys.executable, tree / "tools" / "build_images.py"], cwd=tree, check=False)
    if done.returncode:
        raise RuntimeError(f"its images could not be built: see {tree / 'build' / 'images' / 'build.log'}")


if __name__ == "__main__":
    sys.exit(main())
