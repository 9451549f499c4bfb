"""The core group: Service, Namespace, Secret, ConfigMap."""

from typing import ClassVar

from msgspec import field

from varnish_gateway.api.meta import Object, Read

TLS_TYPE = "kubernetes.io/tls"
"""The type of a Secret that holds a certificate and its key."""


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
    """What it holds is never shown. ``string_data`` is another way to write ``data`` that an API server knows."""

    kind: ClassVar[str] = "Secret"
    type: str = "Opaque"
    data: dict[str, bytes] = field(default_factory=dict)
    string_data: dict[str, str] = field(default_factory=dict)

    def value(self, name: str) -> bytes | None:
        text = self.string_data.get(name)
        return self.data.get(name) if text is None else text.encode()

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name})"


class ConfigMap(Object, frozen=True):
    kind: ClassVar[str] = "ConfigMap"
    data: dict[str, str] = field(default_factory=dict)
