"""The previous version, from git history: the commit that ``.previous`` names.

In:   a path in the tree.
Out:  its text at that commit; the wire format of that commit as a module.
"""

import subprocess
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def commit() -> str:
    return (ROOT / ".previous").read_text().strip()


@cache
def text(path: str) -> str:
    """Return a file as it was; fail with a remedy where this clone lacks the history."""
    shown = subprocess.run(["git", "show", f"{commit()}:{path}"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, (
        f"this clone lacks {path} of the previous version, commit {commit()}, which .previous names; "
        f"in a shallow clone run: git fetch --unshallow ({shown.stderr.strip()})"
    )
    return shown.stdout


@cache
def wire() -> ModuleType:
    """Return ir/wire.py of the previous version, which depends on nothing of ours."""
    module = ModuleType("previous_wire")
    exec(compile(text("src/varnish_gateway/ir/wire.py"), "previous wire.py", "exec"), module.__dict__)
    return module
