"""Validate the addresses that a Gateway requests.

In:   a Gateway's spec.addresses, and whether there is a load balancer.
Out:  what is wrong with them.
An address without a value is any address.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from varnish_gateway.translate.conditions import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from varnish_gateway import api, ir
    from varnish_gateway.translate.options import Options


def unsupported(gateway: api.Gateway, options: Options) -> Problem | None:
    """Return a type of address that we don't have."""
    supported = ("IPAddress",) if options.addresses == "load-balancer" else ("IPAddress", "Hostname")
    for address in gateway.spec.addresses:
        if address.type not in supported:
            return Problem("UnsupportedAddress", f"addresses: the type {address.type} is not supported; remove it")
    return None


def unusable(gateway: api.Gateway, options: Options, parameters: ir.Parameters | None) -> Problem | None:
    """Return why the addresses can't be used. Without parameters the type of the Service is not known."""
    values = [address.value for address in gateway.spec.addresses if address.value]
    if not values:
        return None
    reason = "remove it, listeners are served on every address"
    if options.addresses == "load-balancer":
        reason = _unaskable(values, parameters)
    if not reason:
        return None
    return Problem("AddressNotUsable", f"addresses: {', '.join(values)} can't be chosen; {reason}")


def _unaskable(values: Sequence[str], parameters: ir.Parameters | None) -> str:
    """Return why a load balancer can't have these addresses."""
    if len(values) > 1:
        return "a load balancer can have one address; remove the others"
    if not _is_address(values[0]):
        return "it is not an IP address; correct it"
    if parameters is not None and parameters.service.type != "LoadBalancer":
        return f"the class has a Service of type {parameters.service.type}, which has no load balancer; remove it"
    return ""


def _is_address(value: str) -> bool:
    try:
        ip_address(value)
    except ValueError:
        return False
    return True
