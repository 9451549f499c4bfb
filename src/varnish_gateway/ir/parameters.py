"""What a class asks for, with the defaults of everything that it does not say.

What we understand is typed; what is only copied into a pod stays as it came.
"""

from typing import Any

from msgspec import Struct, field


class Logging(Struct, frozen=True, omit_defaults=True):
    """The access log. Without an image of its own it runs in the gateway's."""

    mode: str = "varnishlog"
    format: str = ""
    extra_args: tuple[str, ...] = ()
    image: str = ""


class Autoscaling(Struct, frozen=True, omit_defaults=True):
    max_replicas: int
    min_replicas: int = 1
    target_cpu_utilization: int = 80  # per cent of what is asked for


class ServiceParameters(Struct, frozen=True, omit_defaults=True):
    type: str = "LoadBalancer"
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    load_balancer_class: str = ""
    load_balancer_source_ranges: tuple[str, ...] = ()
    external_traffic_policy: str = ""


class Parameters(Struct, frozen=True, omit_defaults=True):
    """Everything of GatewayClassParameters but user VCL, which travels by itself."""

    varnishd_extra_args: tuple[str, ...] = ()
    logging: Logging | None = None
    image: str = ""
    replicas: int | None = None
    autoscaling: Autoscaling | None = None
    resources: dict[str, Any] | None = None
    pod_disruption_budget: dict[str, Any] | None = None
    topology_spread_constraints: tuple[dict[str, Any], ...] = ()
    service: ServiceParameters = ServiceParameters()
    affinity: dict[str, Any] | None = None
    tolerations: tuple[dict[str, Any], ...] = ()
    node_selector: dict[str, str] = field(default_factory=dict)
    pod_annotations: dict[str, str] = field(default_factory=dict)
    priority_class_name: str = ""
    extra_volumes: tuple[dict[str, Any], ...] = ()
    extra_volume_mounts: tuple[dict[str, Any], ...] = ()
    extra_init_containers: tuple[dict[str, Any], ...] = ()
