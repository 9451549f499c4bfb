"""Options of a translator: where its objects come from, and the limits there."""

from __future__ import annotations

from typing import Literal, TypedDict

from msgspec import Struct

from varnish_gateway.ir.reserved import RESERVED_PORTS

CONTROLLER = "varnish-software.com/gateway"


class OptionFields(TypedDict, total=False):
    """Options as keyword arguments."""

    controller: str
    class_name: str
    only_class: bool
    assume_class: bool
    addresses: Literal["rejected", "load-balancer"]
    allow_external_name: bool
    one_machine: bool
    vcl_limit: int | None
    route_limit: int | None
    attachments_limit: int | None
    tls_limit: int | None
    listeners_limit: int | None
    policies_limit: int | None
    reserved_ports: frozenset[int]
    compiles: bool
    gateway_regexes: int
    namespace_regexes: int


class Options(Struct, frozen=True, kw_only=True):
    """Settings of a translator.

    ``only_class``: of the classes that name our controller only ``class_name`` is ours.
    ``assume_class``: without any GatewayClass, Gateways of the class ``class_name`` are ours.
    ``addresses``: what becomes of spec.addresses; a load balancer can have one IP address.
    ``allow_external_name``: backends may be ExternalName Services.
    ``one_machine``: all Gateways share the ports of one machine, and there is no other controller.
    The limits are in bytes; None is no limit.
    ``vcl_limit``: the most bytes that user VCL may take.
    ``route_limit``: the most bytes that the rules of a route may take on the wire.
    ``attachments_limit``: the most bytes that a route's hostnames may take on all listeners of a Gateway.
    ``tls_limit``: the most bytes that all certificates and authorities of a Gateway may take.
    ``listeners_limit``: the most bytes that the listeners of a Gateway's ListenerSets may take on the wire.
    ``policies_limit``: the most bytes that the cache policies of all listeners of a Gateway may take on the wire.
    ``reserved_ports`` are not for listeners.
    ``compiles``: translation compiles patterns itself. A program with an event loop compiles them elsewhere, and
    adds CompiledMatches and CompiledCachePolicies to its objects.
    ``gateway_regexes``: the most bytes that the patterns on a Gateway may take when compiled.
    ``namespace_regexes``: the most bytes that those of one namespace may take on it.
    """

    controller: str = CONTROLLER
    class_name: str = "varnish"
    only_class: bool = False
    assume_class: bool = False
    addresses: Literal["rejected", "load-balancer"] = "rejected"
    allow_external_name: bool = False
    one_machine: bool = False
    vcl_limit: int | None = None
    route_limit: int | None = None
    attachments_limit: int | None = None
    tls_limit: int | None = None
    listeners_limit: int | None = None
    policies_limit: int | None = None
    reserved_ports: frozenset[int] = RESERVED_PORTS
    compiles: bool = True
    gateway_regexes: int = 64 << 20
    namespace_regexes: int = 16 << 20
