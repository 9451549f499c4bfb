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
    tls_limit: int | None
    reserved_ports: frozenset[int]


class Options(Struct, frozen=True, kw_only=True):
    """Settings of a translator.

    ``only_class``: of the classes that name our controller only ``class_name`` is ours.
    ``assume_class``: without any GatewayClass, Gateways of the class ``class_name`` are ours.
    ``addresses``: what becomes of spec.addresses; a load balancer can have one IP address.
    ``allow_external_name``: backends may be ExternalName Services.
    ``one_machine``: all Gateways share the ports of one machine, and there is no other controller.
    ``vcl_limit``, ``route_limit``: user VCL, and a route on the wire, may have so many bytes; None: any number.
    ``tls_limit``: so many all certificates and authorities of a Gateway.
    ``reserved_ports`` are not for listeners.
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
    tls_limit: int | None = None
    reserved_ports: frozenset[int] = RESERVED_PORTS
