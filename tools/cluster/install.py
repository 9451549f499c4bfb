"""Install what is under test: CRDs, our images, the operator by our chart."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster import images, inside
from cluster.conformance import gatewayapi
from cluster.layout import BIN, ROOT

CHART = ROOT / "charts" / "varnish-gateway"
SYSTEM = "varnish-gateway-system"
RELEASE = "varnish-gateway"
CLASS = "varnish"
OURS = "app.kubernetes.io/name in (varnish-gateway, varnish-gateway-operator)"
TIMEOUT = "180s"
Say = Callable[[str], None]


def everything(say: Say) -> None:
    """Install all of it, and wait until the class is accepted. Doing it again brings it up to date."""
    crds()
    say(f"CRDs of the Gateway API {gatewayapi.version()}, {gatewayapi.CHANNEL} channel, are in")
    if images.import_ours():
        # An image of the same name is no change that Kubernetes would see.
        inside.kubectl("delete", "pods", "--all-namespaces", "--selector", OURS, "--wait=false")
    say("images are in")
    chart()
    inside.kubectl("wait", "--for=condition=Accepted", f"gatewayclass/{CLASS}", f"--timeout={TIMEOUT}")
    say(f"the operator runs, and GatewayClass {CLASS} is accepted")


def crds() -> None:
    """Apply the Gateway API's CRDs and ours; helm installs a chart's CRDs only once."""
    files = [*gatewayapi.crds(), *sorted((CHART / "crds").glob("*.yaml"))]
    inside.kubectl("apply", "--server-side", "--force-conflicts", *_files(files))
    names = [f"crd/{_name(path)}" for path in files if "_vap_" not in path.name]
    inside.kubectl("wait", "--for=condition=Established", *names, f"--timeout={TIMEOUT}")


def chart(path: Path = CHART, **values: str) -> None:
    """Install a chart, with other values than its own where they are given; ``__`` is a dot in their names.

    Those of an earlier call don't count: helm would keep them where none are given.
    """
    changed = [word for name, value in values.items() for word in ("--set", f"{name.replace('__', '.')}={value}")]
    inside.run(
        *inside.in_client(
            str(BIN / "helm"), "upgrade", "--install", RELEASE, str(path), "--reset-values", *changed,
            "--namespace", SYSTEM, "--create-namespace", "--skip-crds", "--wait", "--timeout", TIMEOUT,
        )
    )  # fmt: skip


def supported_features() -> list[str]:
    """Return what the class claims."""
    status: dict[str, Any] = json.loads(inside.kubectl("get", "gatewayclass", CLASS, "-o", "json"))["status"]
    return [feature["name"] for feature in status.get("supportedFeatures", [])]


def _files(paths: list[Path]) -> list[str]:
    return [f"--filename={path}" for path in paths]


def _name(path: Path) -> str:
    """Return the name of the CRD in a file, without reading all of it as YAML."""
    lines = path.read_text().splitlines()
    start = lines.index("metadata:")
    return next(line.split(":", 1)[1].strip() for line in lines[start:] if line.startswith("  name:"))
