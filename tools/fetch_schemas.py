"""Write the schemas that file mode validates documents against: ``fetch_schemas.py``.

In:   the table of kinds; the CRDs of the Gateway API's experimental channel, from the Go module proxy, pinned by
      version and checksum; our own CRDs in deploy/crds.
Out:  src/varnish_gateway/standalone/schemas/*.json: one file for each kind, without
      descriptions and without status. They are a build product and not committed.
Does nothing if the schemas exist and their sources are unchanged.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

MODULE = "sigs.k8s.io/gateway-api@v1.6.3"
CHECKSUM = "h1:lKpJa5bGlraC/QeACvCpsHLdmO6y0iKfzVl6gzaFEYc="
CHANNEL = "experimental"

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from varnish_gateway.api.gateway_networking import GROUP  # noqa: E402  the package may not be installed yet
from varnish_gateway.kinds import KINDS  # noqa: E402

PLURALS = tuple(kind.plural for kind in KINDS.values() if kind.group == GROUP)
OWN = ROOT / "deploy" / "crds"
TARGET = ROOT / "src" / "varnish_gateway" / "standalone" / "schemas"
STAMP = TARGET / "made-from"


def main() -> int:
    origin = _origin()
    if STAMP.is_file() and STAMP.read_text() == origin:
        return 0
    print(f"fetch_schemas: downloading {MODULE}", file=sys.stderr)
    try:
        channel = gateway_api()
    except RuntimeError as error:
        print(f"fetch_schemas: {error}", file=sys.stderr)
        return 1
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    crds = [channel / f"{GROUP}_{plural}.yaml" for plural in PLURALS]
    for path in [*crds, *sorted(OWN.glob("*.yaml"))]:
        crd = yaml.safe_load(path.read_text())
        target = TARGET / f"{crd['spec']['names']['kind'].lower()}.json"
        target.write_text(json.dumps(compact(crd), separators=(",", ":")))
    STAMP.write_text(origin)  # last: after an interrupted run the next one starts over
    return 0


def _origin() -> str:
    """Return everything that the result depends on."""
    own = [Path(__file__), *sorted(OWN.glob("*.yaml"))]
    lines = [
        MODULE,
        CHECKSUM,
        *PLURALS,
        *(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in own),
    ]
    return "\n".join(lines) + "\n"


def gateway_api(channel: str = CHANNEL) -> Path:
    """Return the directory of a channel's CRDs in Go's module cache."""
    go = shutil.which("go")
    if go is None:
        raise RuntimeError("downloading the CRDs of the Gateway API needs Go, and there is no go on PATH")
    with tempfile.TemporaryDirectory() as outside_any_module:
        command = [go, "mod", "download", "-json", MODULE]
        done = subprocess.run(command, cwd=outside_any_module, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout or "{}")
    if done.returncode:
        raise RuntimeError(f"can't download {MODULE}: {answer.get('Error') or done.stderr.strip()}")
    if answer["Sum"] != CHECKSUM:
        raise RuntimeError(f"{MODULE} has the checksum {answer['Sum']}, expected {CHECKSUM}")
    return Path(answer["Dir"]) / "config" / "crd" / channel


def compact(crd: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a CustomResourceDefinition that a validator needs."""
    spec = crd["spec"]
    versions = {
        version["name"]: _stripped(version["schema"]["openAPIV3Schema"])
        for version in spec["versions"]
        if version["served"]
    }
    for schema in versions.values():
        schema["properties"].pop("status", None)
    return {
        "group": spec["group"],
        "kind": spec["names"]["kind"],
        "namespaced": spec["scope"] == "Namespaced",
        "versions": versions,
    }


def _stripped(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without descriptions, but keep properties named "description"."""
    kept = {keyword: value for keyword, value in schema.items() if keyword != "description"}
    if "properties" in kept:
        kept["properties"] = {name: _stripped(value) for name, value in kept["properties"].items()}
    for keyword in ("items", "additionalProperties", "not"):
        if isinstance(kept.get(keyword), dict):
            kept[keyword] = _stripped(kept[keyword])
    for keyword in ("allOf", "anyOf", "oneOf"):
        if keyword in kept:
            kept[keyword] = [_stripped(alternative) for alternative in kept[keyword]]
    return kept


if __name__ == "__main__":
    sys.exit(main())
