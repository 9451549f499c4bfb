"""Measure whether invalidations make the hits that follow slower.

Before each turn one gateway carries out 1,000 invalidations of every kind. They name other objects of the host that
is then asked for, as bans do that all later lookups of a plain varnishd have to compare.
"""

import contextlib
import http.client
import json
from collections.abc import Iterator
from typing import Any

import lab
from caching_gateway import TTL, gateway, requests_to, route
from interleaved import Costs, Visited, check_cached

from varnish_gateway.ir import wire

MANY = 1_000
OBJECTS = 100
HOST = "shop.example.com"
UNTOUCHED, AGAIN, INVALIDATED = "untouched", "untouched again", "after 1,000 invalidations"


def measure(rounds: int, seconds: int) -> dict[str, object]:
    """Return the CPU microseconds of a hit after invalidations and without any, and ratios."""
    policy = wire.CachePolicy(name="bench/shop", default_ttl=TTL, tag_headers=("Surrogate-Key",))
    routes = [route("shop", HOST, policy)]
    targets = [(HOST, f"/articles/{number}") for number in range(OBJECTS)]
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(lab.open_directory())
        headers = {**lab.CACHEABLE, "Surrogate-Key": '"kept"'}
        port = stack.enter_context(lab.origin(directory / "origin", headers=headers))
        servers = {}
        for place, name in enumerate((UNTOUCHED, AGAIN, INVALIDATED)):
            servers[name] = stack.enter_context(gateway(directory / str(place), routes, port))
            check_cached(name, servers[name], *targets[0], {})
        visited = {name: Visited(server, requests_to(targets)) for name, server in servers.items()}
        costs = Costs(visited, seconds, directory)
        costs.warm_up()
        for turn in range(rounds):
            _invalidate(servers[INVALIDATED].reload_port, turn)
            costs.visit(turn)
    noise, ratio = costs.ratio(AGAIN, UNTOUCHED), costs.ratio(INVALIDATED, UNTOUCHED)
    return {
        "microseconds per hit": costs.microseconds(),
        "noise (untouched again / untouched)": noise,
        "after 1,000 invalidations / untouched": ratio,
        "beyond the noise": beyond(noise, ratio),
    }


def beyond(noise: float, ratio: float) -> float:
    """Return the ratio without what two equal servers differ by."""
    return round(ratio - abs(noise - 1), 3)


def _invalidate(reload_port: int, turn: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", reload_port, timeout=30)
    for number, document in enumerate(_documents(turn)):
        body = json.dumps(document)
        connection.request("POST", "/.varnish-ghost/invalidate", body, {"Host": "localhost"})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200 or json.loads(content) != {"objects": [0]}:
            raise RuntimeError(f"invalidation {number} was answered {answer.status} {content!r}")
    connection.close()


def _documents(turn: int) -> Iterator[dict[str, Any]]:
    """Return invalidations that name no object which is asked for."""
    for number in range(MANY):
        name = f"{turn}-{number}"
        target = (
            {"uri": {"host": HOST, "target": f"/gone/{name}"}},
            {"prefix": {"host": HOST, "prefix": f"/gone/{name}/"}},
            {"matching": {"host": HOST, "pattern": f"^/gone/{name}/[0-9]+$"}},
            {"tags": [f"gone-{name}"]},
            {"route": f"bench/gone-{name}"},
        )[number % 5]
        yield {"mode": ("hard", "soft")[number // 5 % 2], "targets": [target]}
