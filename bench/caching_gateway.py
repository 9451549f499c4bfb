"""varnishd with ghost, whose routes have cache policies."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import lab

from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import wire

TTL = 86_400_000


def route(name: str, host: str, policy: wire.CachePolicy) -> wire.Route:
    """Return a route of a host, with a policy."""
    rule = wire.Rule(backends=(wire.Backend(service="bench/origin", port=80),), cache=policy)
    attachment = wire.Attachment(listener="http", hostnames=(host,))
    return wire.Route(namespace="bench", name=name, attachments=(attachment,), rules=(rule,))


def gateway(
    directory: Path, routes: Sequence[wire.Route], origin: int
) -> contextlib.AbstractContextManager[lab.Varnish]:
    """Run varnishd with these routes to an origin."""
    pools = {"bench/origin:80": (wire.Endpoint(address="127.0.0.1", port=origin),)}
    config = lab.write_ghost(directory, routes, pools)
    return lab.varnish(main_vcl(), directory, ghost_config=config)


def requests_to(targets: Sequence[tuple[str, str]]) -> list[str]:
    """Return a raw request for each host and target."""
    return [f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n" for host, target in targets]
