"""Replace the pods of a few Gateways at a time when the operator itself changes.

In:   Deployments as observed and as desired; the time.
Out:  whether a Deployment may be applied now. A change that only its Gateway or its class asked for always may.
Pure. A new image reaches a few Gateways first: pods that don't become ready stop the upgrade there,
and the API server, registries and backends never see all pods start at once.
"""

from collections.abc import Mapping
from typing import Any

from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.operator.observe.owned import OwnedObject
from varnish_gateway.operator.plan.objects import Manifest
from varnish_gateway.operator.settings import ROLLOUTS_AT_ONCE

LONGEST_SECONDS = 600.0
"""How long a rollout that doesn't end keeps others waiting; Kubernetes calls one failed after as long."""


class Rollouts:
    """``at_once``: how many Deployments are in an upgrade at the same time."""

    def __init__(self, owned: Mapping[Key, OwnedObject], at_once: int = ROLLOUTS_AT_ONCE) -> None:
        self._owned = owned
        self._at_once = at_once
        self._started: dict[Key, tuple[str, float]] = {}  # the template that is rolled out, and since when

    def resume(self, desired: Mapping[Key, Manifest], now: float) -> None:
        """Start over from what is observed: an earlier leader may have begun rollouts."""
        rolling = [key for key, manifest in desired.items() if self._is_rolling(key, _template(manifest["metadata"]))]
        self._started = {key: (_template(desired[key]["metadata"]), now) for key in rolling}

    def may_apply(self, key: Key, owned: OwnedObject, manifest: Manifest, now: float) -> bool:
        """Whether to apply a Deployment now; it then occupies a place until its rollout ends."""
        new = _template(manifest["metadata"])
        if new == _template(owned.document["metadata"]):
            return True
        self._forget_ended(now)
        if key not in self._started and len(self._started) >= self._at_once:
            return False
        self._started.setdefault(key, (new, now))
        return True

    def cancel(self, key: Key) -> None:
        """Free the place of a Deployment that could not be applied."""
        self._started.pop(key, None)

    def _forget_ended(self, now: float) -> None:
        self._started = {
            key: (template, since)
            for key, (template, since) in self._started.items()
            if now - since < LONGEST_SECONDS and self._is_unfinished(key, template)
        }

    def _is_unfinished(self, key: Key, template: str) -> bool:
        owned = self._owned.get(key)
        if owned is None:
            return False
        return _template(owned.document["metadata"]) != template or is_rolling(owned.document)

    def _is_rolling(self, key: Key, template: str) -> bool:
        owned = self._owned.get(key)
        return owned is not None and _template(owned.document["metadata"]) == template and is_rolling(owned.document)


def is_rolling(deployment: Mapping[str, Any]) -> bool:
    """Whether pods of an earlier template are left. Pods that a lost node took along don't count."""
    spec, status = deployment["spec"], deployment.get("status", {})
    if spec.get("paused") or any(
        one["type"] == "Progressing" and one["status"] == "False" for one in status.get("conditions", ())
    ):
        return False
    updated = status.get("updatedReplicas", 0)
    is_observed = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    return not is_observed or updated < spec.get("replicas", 1) or status.get("replicas", 0) > updated


def _template(metadata: Mapping[str, Any]) -> str:
    found: str = metadata.get("annotations", {}).get(names.TEMPLATE, "")
    return found
