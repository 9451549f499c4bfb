"""What we take from the Gateway API's own modules: CRDs, and which images the conformance tests name.

The version is that of tools/binaries/conformance/go.mod and nowhere else.
"""

import functools
import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from cluster.errors import ClusterError
from cluster.layout import ROOT

MODULE = ROOT / "tools" / "binaries" / "conformance"
API = "sigs.k8s.io/gateway-api"
CONFORMANCE = f"{API}/conformance"
CHANNEL = "experimental"
_IMAGE = re.compile(r"^[\s-]*image:\s*[\"']?([^\s\"']+)", re.MULTILINE)


def crds() -> list[Path]:
    """Return the CRDs and what guards them, of the experimental channel."""
    return sorted((_directory(API) / "config" / "crd" / CHANNEL).glob("gateway*.yaml"))


def version() -> str:
    return _module(API)["Version"]


def images(program: str) -> list[str]:
    """Return every name under which the tests' manifests ask for a program."""
    return images_in((path.read_text() for path in _directory(CONFORMANCE).rglob("*.yaml")), program)


def images_in(manifests: Iterable[str], program: str) -> list[str]:
    named = {image for manifest in manifests for image in _IMAGE.findall(manifest)}
    return sorted(image for image in named if image.rpartition(":")[0].rpartition("/")[2] == program)


def _directory(module: str) -> Path:
    return Path(_module(module)["Dir"])


@functools.cache
def _module(module: str) -> dict[str, str]:
    """Return what Go knows of a module, which it downloads if it has to."""
    command = ["go", "mod", "download", "-json", module]
    done = subprocess.run(command, cwd=MODULE, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"can't find {module}: {done.stderr.strip() or done.stdout}")
    return dict(json.loads(done.stdout))
