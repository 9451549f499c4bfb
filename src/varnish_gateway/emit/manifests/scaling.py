"""How many pods there are, and how many may be away: PodDisruptionBudget and HorizontalPodAutoscaler."""

from collections.abc import Mapping
from typing import Any

from varnish_gateway.api.varnish import Autoscaling
from varnish_gateway.emit import names
from varnish_gateway.emit.manifests.metadata import Manifest, head
from varnish_gateway.emit.manifests.shape import GatewayShape


def disruption_budget(shape: GatewayShape, budget: Mapping[str, Any]) -> Manifest:
    """Return the PodDisruptionBudget that the class asks for."""
    return {
        **head(shape, "policy/v1", "PodDisruptionBudget", names.workload(shape.name)),
        "spec": {**budget, "selector": {"matchLabels": names.pod_selector(shape.name)}},
    }


def autoscaler(shape: GatewayShape, asked: Autoscaling) -> Manifest:
    """Return the HorizontalPodAutoscaler that the class asks for."""
    name = names.workload(shape.name)
    target = {"type": "Utilization", "averageUtilization": asked.target_cpu_utilization}
    return {
        **head(shape, "autoscaling/v2", "HorizontalPodAutoscaler", name),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": asked.min_replicas,
            "maxReplicas": asked.max_replicas,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }
