"""Raise the version in .version and in every copy of it, commit and tag: ``bump.py patch|minor|major``."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PARTS = ("major", "minor", "patch")


def bumped(version: str, part: str) -> str:
    """Return the version with ``part`` raised and the lesser parts at zero."""
    numbers = [int(number) for number in version.removeprefix("v").split(".")]
    place = PARTS.index(part)
    numbers[place:] = [numbers[place] + 1] + [0] * (len(PARTS) - place - 1)
    return "v" + ".".join(map(str, numbers))


def write(root: Path, version: str) -> None:
    """Write the version to .version, the Cargo workspace and the chart."""
    (root / ".version").write_text(f"{version}\n")
    cargo, chart = root / "ghost" / "Cargo.toml", root / "charts" / "varnish-gateway" / "Chart.yaml"
    cargo.write_text(re.sub(r'(?m)^version = ".*"$', f'version = "{version[1:]}"', cargo.read_text(), count=1))
    text = re.sub(r"(?m)^version: .*$", f"version: {version[1:]}", chart.read_text())
    chart.write_text(re.sub(r"(?m)^appVersion: .*$", f"appVersion: {version}", text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    part = parser.parse_args().part
    new = bumped((ROOT / ".version").read_text().strip(), part)
    write(ROOT, new)
    subprocess.run(["cargo", "update", "--quiet", "--workspace"], cwd=ROOT / "ghost", check=True)
    subprocess.run([sys.executable, ROOT / "tools" / "render_deploy.py"], check=True)
    files = [".version", "ghost/Cargo.toml", "ghost/Cargo.lock", "charts/varnish-gateway/Chart.yaml", "deploy"]
    subprocess.run(["git", "commit", "--quiet", "-m", f"Release {new}", "--", *files], cwd=ROOT, check=True)
    subprocess.run(["git", "tag", new], cwd=ROOT, check=True)
    print(new)


if __name__ == "__main__":
    main()
