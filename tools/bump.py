"""Raise the version in .version, commit it and tag it: ``bump.py patch|minor|major``."""

import argparse
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
PARTS = ("major", "minor", "patch")


def bumped(version: str, part: str) -> str:
    """Return the version with ``part`` raised and the lesser parts at zero."""
    numbers = [int(number) for number in version.removeprefix("v").split(".")]
    place = PARTS.index(part)
    numbers[place:] = [numbers[place] + 1] + [0] * (len(PARTS) - place - 1)
    return "v" + ".".join(map(str, numbers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    part = parser.parse_args().part
    version_file, cargo = ROOT / ".version", ROOT / "ghost" / "Cargo.toml"
    new = bumped(version_file.read_text().strip(), part)
    version_file.write_text(f"{new}\n")
    cargo.write_text(re.sub(r'(?m)^version = ".*"$', f'version = "{new[1:]}"', cargo.read_text(), count=1))
    subprocess.run(["cargo", "update", "--quiet", "--workspace"], cwd=ROOT / "ghost", check=True)
    files = [".version", "ghost/Cargo.toml", "ghost/Cargo.lock"]
    subprocess.run(["git", "commit", "--quiet", "-m", f"Release {new}", "--", *files], cwd=ROOT, check=True)
    subprocess.run(["git", "tag", new], cwd=ROOT, check=True)
    print(new)


if __name__ == "__main__":
    main()
