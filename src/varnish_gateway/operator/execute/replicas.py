"""Hand the number of pods over to an autoscaler.

In:   the manifest of a Deployment that leaves the number to others, and the stored Deployment.
Out:  the manifest with the stored number while we are its only manager: a field without a manager
      falls back to its default, and all pods but one would be deleted.
Pure.
"""

from collections.abc import Mapping
from typing import Any

from varnish_gateway.emit import names
from varnish_gateway.operator.observe.owned import OwnedObject


def with_replicas_held(manifest: Mapping[str, Any], owned: OwnedObject) -> Mapping[str, Any]:
    """Return the manifest with the stored number of pods if we still hold that field."""
    if manifest["kind"] != "Deployment" or "replicas" in manifest["spec"]:
        return manifest
    stored = owned.document
    if not any(_holds_replicas(entry) for entry in stored["metadata"].get("managedFields", ())):
        return manifest
    return {**manifest, "spec": {**manifest["spec"], "replicas": stored["spec"]["replicas"]}}


def _holds_replicas(entry: Mapping[str, Any]) -> bool:
    is_ours = entry["manager"] == names.GATEWAY_MANAGER and entry["operation"] == "Apply"
    return is_ours and "f:replicas" in entry.get("fieldsV1", {}).get("f:spec", {})
