"""Measure what ghost costs per request: CPU time of varnishd's worker, compared with plain varnishd.

The baseline is a static VCL with one backend and no routing. Runs are interleaved: each round
visits every instance. Two instances run the baseline; the ratio of the two is the noise. The load
uses the same ten routes whether there are ten or 10,000, so requests and cached objects are equal.
"""

import contextlib
from pathlib import Path

import lab
from interleaved import Costs, Visited

from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import UserVcl, wire

DECISION = """\
sub vcl_recv {
    if (req.http.X-Hit) {
        return (hash);
    }
    return (pass);
}
sub vcl_backend_response {
    set beresp.ttl = 1h;
}
"""
MANY = 10_000


def plain_vcl(port: int) -> str:
    return f'vcl 4.1;\nbackend default {{ .host = "127.0.0.1"; .port = "{port}"; }}\n{DECISION}'


def by_host(number: int) -> wire.Route:
    return _route(number, hostname=f"h{number}.example.com", path="/")


def by_path(number: int) -> wire.Route:
    return _route(number, hostname="one.example.com", path=f"/p{number}")


def _route(number: int, *, hostname: str, path: str) -> wire.Route:
    return wire.Route(
        namespace="bench",
        name=f"route-{number}",
        attachments=(wire.Attachment(listener="http", hostnames=(hostname,)),),
        rules=(
            wire.Rule(
                matches=(wire.Match(path=wire.PathMatch(type="prefix", value=path)),),
                backends=(wire.Backend(service="bench/origin", port=80),),
            ),
        ),
    )


def requests_to(routes: list[wire.Route], *, hit: bool) -> list[str]:
    """Return raw requests, one for each route."""
    extra = "X-Hit: 1\r\n" if hit else ""
    return [
        f"GET {route.rules[0].matches[0].path.value} HTTP/1.1\r\n"
        f"Host: {route.attachments[0].hostnames[0]}\r\n{extra}\r\n"
        for route in routes
    ]


def measure(rounds: int, seconds: int) -> dict[str, object]:
    """Return ratios to the baseline, per mode and instance."""
    numbers = range(MANY // 10 - 1, MANY, MANY // 10)
    hosts, paths = [by_host(number) for number in numbers], [by_path(number) for number in numbers]
    instances: dict[str, tuple[list[wire.Route] | None, list[wire.Route]]] = {
        "plain": (None, hosts),
        "plain again": (None, hosts),
        "ghost, 10 hosts": (hosts, hosts),
        "ghost, 10,000 hosts": ([by_host(number) for number in range(MANY)], hosts),
        "ghost, 10 paths": (paths, paths),
        "ghost, 10,000 paths": ([by_path(number) for number in range(MANY)], paths),
    }
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(lab.open_directory())
        port = stack.enter_context(lab.origin(directory / "origin"))
        running = {}
        for place, (name, (routes, _)) in enumerate(instances.items()):
            running[name] = stack.enter_context(_instance(directory / str(place), routes, port))
        costs = {}
        for mode in ("hit", "pass"):
            visited = {
                name: Visited(running[name], requests_to(requested, hit=mode == "hit"))
                for name, (_, requested) in instances.items()
            }
            costs[mode] = Costs(visited, seconds, directory)
        for turn in range(rounds):
            for each in costs.values():
                each.visit(turn)
        return {mode: _ratios(each) for mode, each in costs.items()}


def _instance(
    directory: Path, routes: list[wire.Route] | None, port: int
) -> contextlib.AbstractContextManager[lab.Varnish]:
    if routes is None:
        return lab.varnish(plain_vcl(port), directory)
    pools = {"bench/origin:80": (wire.Endpoint(address="127.0.0.1", port=port),)}
    config = lab.write_ghost(directory, routes, pools)
    return lab.varnish(main_vcl(UserVcl(source="bench", text=DECISION)), directory, ghost_config=config)


def _ratios(costs: Costs) -> dict[str, object]:
    return {
        "microseconds per request": costs.microseconds(),
        "noise (plain again / plain)": costs.ratio("plain again", "plain"),
        "ghost with 10 routes / plain": costs.ratio("ghost, 10 hosts", "plain"),
        "10,000 hosts / 10 hosts": costs.ratio("ghost, 10,000 hosts", "ghost, 10 hosts"),
        "10,000 paths / 10 paths": costs.ratio("ghost, 10,000 paths", "ghost, 10 paths"),
    }
