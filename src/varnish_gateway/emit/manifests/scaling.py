"""How many pods there are, and how many may be away: PodDisruptionBudget and HorizontalPodAutoscaler."""

from collections.abc import Mapping
from typing import Any

from varnish_gateway.api.varnish import Autoscaling
from varnish_gateway.emit import names
from varnish_gateway.emit.manifests.metadata import Manifest, head
from varnish_gateway.emit.manifests.shape import GatewayShape


def disruption_budget(shape: GatewayShape, budget: Mapping[str, Any]) -> Manifest:
    """Return the PodDisruptionBudget of the class."""
    return {
        **head(shape, "policy/v1", "PodDisruptionBudget", names.workload(shape.name)),
        "spec": {**budget, "selector": {"matchLabels": names.pod_selector(shape.name)}},
    }


def autoscaler(shape: GatewayShape, autoscaling: Autoscaling) -> Manifest:
    """Return the HorizontalPodAutoscaler of the class."""
    name = names.workload(shape.name)
    target = {"type": "Utilization", "averageUtilization": autoscaling.target_cpu_utilization}
    return {
        **head(shape, "autoscaling/v2", "HorizontalPodAutoscaler", name),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": autoscaling.min_replicas,
            "maxReplicas": autoscaling.max_replicas,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }
