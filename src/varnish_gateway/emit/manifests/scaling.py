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
        **head(shape, "policy/v1", "PodDisruptionBudget", shape.workload("PodDisruptionBudget")),
        "spec": {**budget, "selector": {"matchLabels": names.pod_selector(shape.name)}},
    }


def autoscaler(shape: GatewayShape, autoscaling: Autoscaling) -> Manifest:
    """Return the HorizontalPodAutoscaler of the class."""
    target = {"type": "Utilization", "averageUtilization": autoscaling.target_cpu_utilization}
    return {
        **head(shape, "autoscaling/v2", "HorizontalPodAutoscaler", shape.workload("HorizontalPodAutoscaler")),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": shape.workload("Deployment")},
            "minReplicas": autoscaling.min_replicas,
            "maxReplicas": autoscaling.max_replicas,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }
