"""discovery.k8s.io: EndpointSlice."""

from typing import ClassVar

from varnish_gateway.api.meta import Object, Read

SERVICE_LABEL = "kubernetes.io/service-name"


class EndpointConditions(Read, frozen=True):
    """Absent means yes for ready and serving, and no for terminating."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class SliceEndpoint(Read, frozen=True):
    addresses: tuple[str, ...]
    conditions: EndpointConditions = EndpointConditions()


class EndpointPort(Read, frozen=True):
    name: str | None = None
    port: int | None = None
    protocol: str = "TCP"


class EndpointSlice(Object, frozen=True):
    kind: ClassVar[str] = "EndpointSlice"
    address_type: str
    endpoints: tuple[SliceEndpoint, ...] | None = ()
    ports: tuple[EndpointPort, ...] | None = ()

    @property
    def service(self) -> str | None:
        """The name of the Service that this slice belongs to."""
        return self.metadata.labels.get(SERVICE_LABEL)
