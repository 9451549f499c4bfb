"""Measure what a hit costs under a cache policy with a key of its own.

The key has a request header, and the query without parameters of campaigns. The baseline is a static VCL that makes
the same key by hand, with one backend and no routing; another one leaves the key to varnishd's built-in VCL, so that
it costs less. nginx and HAProxy serve the same objects to the same load.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import lab
import peers
from caching_gateway import TTL, gateway, route
from interleaved import Costs, Visited, check_cached

from varnish_gateway.ir import wire

OBJECTS = 100
HOST = "shop.example.com"
KEYED = "Accept-Language"
STATIC_KEY = """\
sub vcl_recv {
    set req.url = regsuball(req.url, "[?&]utm_[a-z]+=[^&]*", "");
}
sub vcl_hash {
    hash_data(req.http.host);
    hash_data(req.url);
    hash_data(req.http.Accept-Language);
    return (lookup);
}
"""
STATIC_VCL = """\
vcl 4.1;
backend default {{ .host = "127.0.0.1"; .port = "{port}"; }}
{key}
sub vcl_recv {{
    return (hash);
}}
"""

STATIC, AGAIN, BUILT_IN = "static VCL", "static VCL again", "static VCL with the built-in key"
POLICY, ANNOUNCED = "policy", "policy, Cache-Status on"
NGINX, HAPROXY = "nginx proxy_cache", "HAProxy cache"
OWN, PEERS = (STATIC, BUILT_IN, POLICY, ANNOUNCED), (NGINX, HAPROXY)


def targets() -> list[str]:
    return [f"/articles/{number}?id={number}&utm_source=mail" for number in range(OBJECTS)]


def requests() -> list[str]:
    """Return raw requests, one for each object."""
    return [f"GET {target} HTTP/1.1\r\nHost: {HOST}\r\n{KEYED}: de\r\n\r\n" for target in targets()]


def measure(rounds: int, seconds: int) -> dict[str, object]:
    """Return the CPU microseconds of a hit for each server, and ratios."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(lab.open_directory())
        port = stack.enter_context(lab.origin(directory / "origin", headers=lab.CACHEABLE))
        servers = {name: stack.enter_context(server) for name, server in _servers(directory, port).items()}
        for name, server in servers.items():
            check_cached(name, server, HOST, targets()[0], {KEYED: "de"})
        costs = Costs({name: Visited(server, requests()) for name, server in servers.items()}, seconds, directory)
        costs.warm_up()
        for turn in range(rounds):
            costs.visit(turn)
    return {
        "microseconds per hit": costs.microseconds(),
        "noise (static VCL again / static VCL)": costs.ratio(AGAIN, STATIC),
        "policy / static VCL": costs.ratio(POLICY, STATIC),
        "policy with Cache-Status / static VCL": costs.ratio(ANNOUNCED, STATIC),
        "policy / static VCL with the built-in key": costs.ratio(POLICY, BUILT_IN),
        "policy / nginx": costs.ratio(POLICY, NGINX),
        "policy / HAProxy": costs.ratio(POLICY, HAPROXY),
    }


def _servers(directory: Path, port: int) -> Mapping[str, contextlib.AbstractContextManager[lab.Server]]:
    static = STATIC_VCL.format(port=port, key=STATIC_KEY)
    return {
        STATIC: lab.varnish(static, directory / "static"),
        AGAIN: lab.varnish(static, directory / "again"),
        BUILT_IN: lab.varnish(STATIC_VCL.format(port=port, key=""), directory / "built-in"),
        POLICY: _gateway(directory / "policy", port, "off"),
        ANNOUNCED: _gateway(directory / "announced", port, "on"),
        NGINX: peers.nginx(directory / "nginx", port),
        HAPROXY: peers.haproxy(directory / "haproxy", port),
    }


def _gateway(
    directory: Path, port: int, status: Literal["off", "on"]
) -> contextlib.AbstractContextManager[lab.Varnish]:
    parameters = wire.QueryParameters(exclude=("utm_*",))
    key = wire.CacheKey(headers=(KEYED.lower(),), query_parameters=parameters)
    policy = wire.CachePolicy(name="bench/shop", default_ttl=TTL, cache_key=key, cache_status=status)
    return gateway(directory, [route("shop", HOST, policy)], port)
