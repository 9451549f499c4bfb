"""Measure the CPU time of a full translation of 5,000 routes, without parsing, and ghost's memory for them."""

import contextlib
import time

import lab
from fleet import documents
from request_cost import by_host

from varnish_gateway import api
from varnish_gateway.decoding import decode
from varnish_gateway.emit.routing import Shards
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import wire
from varnish_gateway.standalone.translation import file_translator

ROUTES = 5_000


def measure_translation() -> dict[str, object]:
    """Return the CPU seconds from objects to encoded shards."""
    objects = {api.key_of(decoded): decoded for decoded in map(decode, documents(ROUTES))}
    translator, shards = file_translator(), Shards()
    started = time.process_time()
    delta = translator.update(objects)
    (gateway,) = delta.gateways.values()
    shards.update(listeners=gateway.listeners, routes=gateway.routes)
    seconds = time.process_time() - started
    if len(gateway.routes) != ROUTES:
        raise RuntimeError(f"{len(gateway.routes)} routes instead of {ROUTES}")
    return {"translating 5,000 routes, CPU s": round(seconds, 3)}


def measure_memory() -> dict[str, object]:
    """Return the memory that 5,000 routes add to varnishd's worker, each with its own endpoint.

    ghost uses anonymous memory. The rest is counters, which varnishd maps for each backend.
    """
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(lab.open_directory())
        sizes = {}
        for count in (1, ROUTES):
            routes = [_own_pool(number) for number in range(count)]
            pools = {
                f"bench/s{number}:80": (wire.Endpoint(address=f"127.1.{number // 250}.{number % 250 + 1}", port=80),)
                for number in range(count)
            }
            config = lab.write_ghost(directory / str(count), routes, pools)
            running = stack.enter_context(lab.varnish(main_vcl(), directory / str(count), ghost_config=config))
            sizes[count] = running.memory()
    grown = {kind: round((sizes[ROUTES][kind] - sizes[1][kind]) / 1e6, 1) for kind in sizes[1]}
    return {
        "memory of ghost for 5,000 routes, MB": grown["RssAnon"],
        "counters of varnishd for 5,000 endpoints, MB": round(grown["VmRSS"] - grown["RssAnon"], 1),
    }


def _own_pool(number: int) -> wire.Route:
    route = by_host(number)
    backend = wire.Backend(service=f"bench/s{number}", port=80)
    rule = wire.Rule(matches=route.rules[0].matches, backends=(backend,))
    return wire.Route(namespace=route.namespace, name=route.name, attachments=route.attachments, rules=(rule,))
