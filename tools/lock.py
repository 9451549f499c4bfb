"""Generate requirements/*.txt from pyproject.toml, with hashes and without an index line."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMPILE = [
    *(sys.executable, "-m", "piptools", "compile", "--quiet", "--generate-hashes", "--allow-unsafe"),
    *("--strip-extras", "--no-header", "--no-emit-index-url", "--no-emit-find-links", "--no-emit-trusted-host"),
]


def compile_requirements(name: str, requirements: list[str], constraint: Path | None = None) -> Path:
    """Resolve ``requirements`` into requirements/``name``.txt."""
    source, target = ROOT / "build" / f"{name}.in", ROOT / "requirements" / f"{name}.txt"
    source.parent.mkdir(exist_ok=True)
    source.write_text("\n".join(requirements) + "\n")
    extra = ["--constraint", str(constraint)] if constraint else []
    subprocess.run([*COMPILE, "--no-annotate", *extra, "--output-file", str(target), str(source)], check=True)
    return target


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    run, dev = project["project"]["dependencies"], project["dependency-groups"]["dev"]
    everything = compile_requirements("dev", [*run, *dev])
    compile_requirements("run", run, constraint=everything)


if __name__ == "__main__":
    main()
