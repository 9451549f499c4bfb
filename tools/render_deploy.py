"""Write deploy/*.yaml and the chart's CRDs: ``render_deploy.py [--check]``.

In:   charts/varnish-gateway with its default values (helm is build/bin/helm), deploy/crds,
      .version, and the text of the sample in deploy/04-sample-gateway.yaml itself.
Out:  deploy/00-prereqs.yaml … 04-sample-gateway.yaml and charts/varnish-gateway/crds. With
      --check it writes nothing, names the files that differ, and exits with status 1.

The chart is the source of the operator's manifests and deploy/ is rendered from it: plain
manifests have no values, so a chart can't be generated from them.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HELM = ROOT / "build" / "bin" / "helm"
CHART = ROOT / "charts" / "varnish-gateway"
DEPLOY = ROOT / "deploy"
SAMPLE = DEPLOY / "04-sample-gateway.yaml"

RELEASE, NAMESPACE = "varnish-gateway", "varnish-gateway-system"
KUBERNETES = "1.36.3"  # helm renders for this version; Chart.yaml has the supported range
TEMPLATES = {
    "01-operator.yaml": "operator/*.yaml",
    "02-chaperone-rbac.yaml": "chaperone-rbac.yaml",
    "03-gatewayclass.yaml": "gatewayclass.yaml",
}
HEADER = "# Rendered from charts/varnish-gateway by `make manifests`; change it there.\n"
HELM_MARKS = re.compile(r"^(# Source: .*| *helm\.sh/chart: .*| *app\.kubernetes\.io/managed-by: Helm)\n", re.MULTILINE)

PREREQUISITES = f"""\
# Generated from deploy/crds by `make manifests`; change it there. Apply the CRDs of the Gateway API first.
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    app.kubernetes.io/part-of: varnish-gateway
    pod-security.kubernetes.io/enforce: restricted
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Write deploy/*.yaml and the chart's CRDs.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of date")
    check = parser.parse_args().check
    files = generated()
    obsolete = [path for path in (CHART / "crds").glob("*.yaml") if path not in files]
    stale = [path for path, text in files.items() if not path.is_file() or path.read_text() != text]
    if check:
        for path in [*stale, *obsolete]:
            print(f"{path.relative_to(ROOT)} is out of date; run `make manifests`", file=sys.stderr)
        return 1 if stale or obsolete else 0
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(files[path])
    for path in obsolete:
        path.unlink()
    return 0


def generated() -> dict[Path, str]:
    """Return the text of every generated file."""
    crds = {path.name: path.read_text() for path in sorted((DEPLOY / "crds").glob("*.yaml"))}
    files = {CHART / "crds" / name: text for name, text in crds.items()}
    files[DEPLOY / "00-prereqs.yaml"] = "---\n".join([PREREQUISITES, *crds.values()])
    files |= {DEPLOY / name: HEADER + rendered(templates) for name, templates in TEMPLATES.items()}
    version = (ROOT / ".version").read_text().strip()
    files[SAMPLE] = re.sub(r"(image: ghcr\.io/varnish/gateway-operator:)\S+", rf"\g<1>{version}", SAMPLE.read_text())
    return files


def rendered(templates: str) -> str:
    """Render templates, without the labels and comments of helm: kubectl applies the result."""
    command = [HELM, "template", RELEASE, CHART, "--namespace", NAMESPACE, "--kube-version", KUBERNETES]
    done = subprocess.run(
        [*command, "--show-only", f"templates/{templates}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"helm can't render {templates}: {done.stderr.strip()}")
    return HELM_MARKS.sub("", done.stdout).removeprefix("---\n").rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(main())
