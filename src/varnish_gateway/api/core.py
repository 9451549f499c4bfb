"""The core group: Service, Namespace, Secret, ConfigMap."""

from typing import ClassVar

from msgspec import field

from varnish_gateway.api.meta import Object, Read


class ServicePort(Read, frozen=True):
    port: int
    name: str = ""
    protocol: str = "TCP"
    app_protocol: str | None = None


class ServiceSpec(Read, frozen=True):
    type: str = "ClusterIP"
    external_name: str = ""
    ports: tuple[ServicePort, ...] = ()


class Service(Object, frozen=True):
    kind: ClassVar[str] = "Service"
    spec: ServiceSpec = ServiceSpec()


class Namespace(Object, frozen=True):
    kind: ClassVar[str] = "Namespace"
    namespaced: ClassVar[bool] = False


class Secret(Object, frozen=True):
    """Known, as it stands beside what we serve; what it holds is not read, so it is not kept."""

    kind: ClassVar[str] = "Secret"


class ConfigMap(Object, frozen=True):
    kind: ClassVar[str] = "ConfigMap"
    data: dict[str, str] = field(default_factory=dict)
