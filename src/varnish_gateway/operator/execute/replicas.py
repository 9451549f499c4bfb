"""Hand the number of pods over to an autoscaler.

In:   the manifest of a Deployment that leaves the number to others, and the Deployment as it is stored.
Out:  the manifest with the stored number for as long as nobody but us holds it: a field that
      nobody holds falls back to its default, and all pods but one would go.
Pure.
"""

from collections.abc import Mapping
from typing import Any

from varnish_gateway.emit import names
from varnish_gateway.operator.observe.owned import LiveObject


def with_replicas_held(manifest: Mapping[str, Any], live: LiveObject) -> Mapping[str, Any]:
    """Return the manifest with the number of pods, where that is still ours; anything else as it is."""
    if manifest["kind"] != "Deployment" or "replicas" in manifest["spec"]:
        return manifest
    stored = live.document
    if not any(_holds_replicas(entry) for entry in stored["metadata"].get("managedFields", ())):
        return manifest
    return {**manifest, "spec": {**manifest["spec"], "replicas": stored["spec"]["replicas"]}}


def _holds_replicas(entry: Mapping[str, Any]) -> bool:
    is_ours = entry["manager"] == names.GATEWAY_MANAGER and entry["operation"] == "Apply"
    return is_ours and "f:replicas" in entry.get("fieldsV1", {}).get("f:spec", {})
