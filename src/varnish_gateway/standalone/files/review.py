"""What valid objects say in vain.

In:   changed objects.
Out:  findings for each object that has no effect, or not all that its text promises: a Service of a route
      without endpoints or with a port that its EndpointSlices don't have, GatewayClassParameters that no
      class references, and their fields that describe pods.
Pure and incremental: a change looks at the Services that it touches.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from varnish_gateway.api import (
    EndpointSlice,
    GatewayClass,
    GatewayClassParameters,
    HTTPRoute,
    Key,
    Object,
    Service,
    key_of,
)
from varnish_gateway.api.discovery import SERVICE_LABEL
from varnish_gateway.standalone.schema import did_you_mean
from varnish_gateway.translate.gateway.parameter_use import UNREFERENCED, ParameterUse

HONOURED = frozenset(
    {
        "user_vcl_config_map_ref",
        "varnishd_extra_args",
        "forwarding",
        "paths",
        "invalidation",
        "listener_sets",
        "shares",
        "storage",
        "http2",
    }
)
"""Fields of GatewayClassParameters that ``vgw run`` honours; it has no use for any other."""

T = TypeVar("T")
Used = frozenset[tuple[Key, int]]
"""Services with the ports that a route uses."""


class Review:
    """Remembers the objects that findings depend on."""

    def __init__(self) -> None:
        self.findings: dict[Key, list[str]] = {}
        self._services: dict[Key, Service] = {}
        self._slices: dict[Key, dict[Key, EndpointSlice]] = {}  # by Service
        self._service_of: dict[Key, Key] = {}  # by slice
        self._used_by: dict[Key, Used] = {}  # by route
        self._used: dict[Key, Counter[int]] = {}  # ports by Service
        self._parameter_use = ParameterUse()
        self._parameters: dict[Key, GatewayClassParameters] = {}

    def update(self, objects: Mapping[Key, Object | None]) -> Iterator[tuple[Key, str]]:
        """Apply changes; yield findings that are new."""
        touched: dict[Key, None] = {}
        for key, obj in objects.items():
            touched.update(dict.fromkeys(self._apply(key, obj)))
        for key in touched:
            before = self.findings.pop(key, [])
            if now := list(self._of(key)):
                self.findings[key] = now
                yield from ((key, finding) for finding in now if finding not in before)

    def _apply(self, key: Key, obj: Object | None) -> Iterable[Key]:
        """Store an object; return the objects to look at again."""
        if key.kind == Service.kind:
            _store(self._services, key, obj if isinstance(obj, Service) else None)
            return [key]
        if key.kind == EndpointSlice.kind:
            return self._apply_slice(key, obj if isinstance(obj, EndpointSlice) else None)
        if key.kind == HTTPRoute.kind:
            return self._apply_route(key, obj if isinstance(obj, HTTPRoute) else None)
        self._parameter_use.update(key, obj)
        if key.kind == GatewayClass.kind:
            return list(self._parameters)
        if key.kind == GatewayClassParameters.kind:
            _store(self._parameters, key, obj if isinstance(obj, GatewayClassParameters) else None)
            return [key]
        return []

    def _apply_slice(self, key: Key, piece: EndpointSlice | None) -> list[Key]:
        touched = []
        if (before := self._service_of.pop(key, None)) is not None:
            del self._slices[before][key]
            touched.append(before)
        if piece is not None and piece.service is not None:
            service = Key(Service.kind, key.namespace, piece.service)
            self._service_of[key] = service
            self._slices.setdefault(service, {})[key] = piece
            touched.append(service)
        return touched

    def _apply_route(self, key: Key, route: HTTPRoute | None) -> list[Key]:
        before, now = self._used_by.pop(key, frozenset()), _used(route) if route is not None else frozenset()
        if now:
            self._used_by[key] = now
        for service, port in before - now:
            self._used[service][port] -= 1
        for service, port in now - before:
            self._used.setdefault(service, Counter())[port] += 1
        return [service for service, _ in before ^ now]

    def _of(self, key: Key) -> Iterator[str]:
        if (service := self._services.get(key)) is not None:
            yield from self._of_service(key, service)
        elif (parameters := self._parameters.get(key)) is not None:
            yield from self._of_parameters(parameters)

    def _of_service(self, key: Key, service: Service) -> Iterator[str]:
        used = +self._used.get(key, Counter())
        if not used or service.spec.type == "ExternalName":
            return
        slices = self._slices.get(key)
        if not slices:
            yield f"has no endpoints: no EndpointSlice has the label {SERVICE_LABEL}: {key.name}; its routes answer 503"
            return
        names = {port.name or "" for piece in slices.values() for port in piece.ports or ()}
        for port in service.spec.ports:
            if port.port in used and port.name not in names:
                which = f'is named "{port.name}"' if port.name else "has no name"
                hint = did_you_mean(port.name, names - {""})
                yield f"port {port.port} {which}, and no port of its EndpointSlices is called so{hint}"

    def _of_parameters(self, parameters: GatewayClassParameters) -> Iterator[str]:
        if key_of(parameters) in self._parameter_use.unreferenced:
            yield UNREFERENCED
            return
        if fields := _without_effect(parameters):
            yield f"{', '.join(fields)}: no effect on one machine; vgw run has no pods"


def _store(known: dict[Key, T], key: Key, obj: T | None) -> None:
    if obj is None:
        known.pop(key, None)
    else:
        known[key] = obj


def _used(route: HTTPRoute) -> Used:
    return frozenset(
        (Key(Service.kind, ref.namespace or key_of(route).namespace, ref.name), ref.port)
        for rule in route.spec.rules
        for ref in rule.backend_refs
        if (ref.group, ref.kind) == ("", Service.kind) and ref.port is not None and ref.weight
    )


def _without_effect(parameters: GatewayClassParameters) -> list[str]:
    spec, defaults = parameters.spec, type(parameters.spec)()
    return [
        f"spec.{field.encode_name}"
        for field in msgspec.structs.fields(spec)
        if field.name not in HONOURED and getattr(spec, field.name) != getattr(defaults, field.name)
    ]
