"""How this machine reaches its package registries, as files for a build to mount.

In:   the configuration of apt, pip and cargo on this machine, and its CA bundle.
Out:  package sources of another Debian release; a directory of secrets. A build step sees them while
      it runs; they enter neither an image nor the tree.
"""

import os
import ssl
import subprocess
import sys
from pathlib import Path

PIP_OPTIONS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")
"""Options about the package index; a build ignores the others (directories, caches)."""
CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"


def debian_sources(suite: str) -> list[str]:
    """Return this machine's package sources for Debian, rewritten for ``suite``; empty if it has none."""
    command = [
        "apt-get",
        "indextargets",
        "--format",
        "$(ORIGIN)|$(REPO_URI)|$(CODENAME)|$(RELEASE)",
        "Created-By: Packages",
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = []
    for target in found.stdout.splitlines():
        origin, uri, codename, release = target.split("|")
        if origin == "Debian":
            own = codename.partition("-")[0]
            lines.append(f"deb {uri.rstrip('/')} {release.replace(own, suite)} main")
    return sorted(set(lines))


def write_secrets(directory: Path, apt_sources: Path) -> dict[str, Path]:
    """Write the secrets that the Containerfile mounts; omit those that this machine does not have."""
    secrets = {"apt": apt_sources, "pip": directory / "pip.conf"}
    secrets["pip"].write_text(_pip_configuration())
    if (bundle := ssl.get_default_verify_paths().cafile or CA_BUNDLE) and Path(bundle).is_file():
        secrets["ca"] = Path(bundle)
    cargo = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo") / "config.toml"
    if cargo.is_file():
        secrets["cargo"] = cargo
    return secrets


def _pip_configuration() -> str:
    """Return a pip.conf that combines this machine's configuration files and environment variables."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    options = {}
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        option = name.rpartition(".")[2].replace("default-", "")
        if option in PIP_OPTIONS:
            options[option] = value.strip("'\"")
    return "\n".join(["[global]", f"cert = {CA_BUNDLE}", *(f"{name} = {value}" for name, value in options.items()), ""])
