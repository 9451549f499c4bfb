"""Measure whether many cache policies make a hit slower.

5,000 routes share one policy, or each has its own. Both serve the same requests, one for each route.
"""

import contextlib

import lab
from caching_gateway import TTL, gateway, requests_to, route
from interleaved import Costs, Visited, check_cached

from varnish_gateway.ir import wire

MANY = 5_000
ONE, AGAIN, OWN = "one policy", "one policy again", "5,000 policies"


def measure(rounds: int, seconds: int) -> dict[str, object]:
    """Return the CPU microseconds of a hit with one and with many policies, and ratios."""
    hosts = [f"h{number}.example.com" for number in range(MANY)]
    shared = [route(f"r{number}", host, _policy(0)) for number, host in enumerate(hosts)]
    own = [route(f"r{number}", host, _policy(number)) for number, host in enumerate(hosts)]
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(lab.open_directory())
        port = stack.enter_context(lab.origin(directory / "origin", headers=lab.CACHEABLE))
        visited = {}
        for place, (name, routes) in enumerate({ONE: shared, AGAIN: shared, OWN: own}.items()):
            server = stack.enter_context(gateway(directory / str(place), routes, port))
            check_cached(name, server, hosts[-1], "/", {})
            visited[name] = Visited(server, requests_to([(host, "/") for host in hosts]))
        costs = Costs(visited, seconds, directory)
        costs.warm_up()
        for turn in range(rounds):
            costs.visit(turn)
    return {
        "microseconds per hit": costs.microseconds(),
        "noise (one policy again / one policy)": costs.ratio(AGAIN, ONE),
        "5,000 policies / one policy": costs.ratio(OWN, ONE),
    }


def _policy(number: int) -> wire.CachePolicy:
    """Return a policy that differs from all others in its key too."""
    key = wire.CacheKey(headers=(f"x-kind-{number}",), query_parameters=wire.QueryParameters(exclude=("utm_*",)))
    return wire.CachePolicy(name=f"bench/p{number}", default_ttl=TTL + 1000 * number, cache_key=key)
