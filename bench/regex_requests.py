"""What a request costs that meets the most expensive patterns which the gateway accepts.

A case is a request, and the routes or the cache policy whose patterns it meets. The CPU time of varnishd's worker
is measured, of the thread that fetches too, and includes what any request costs.
"""

import random
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import lab

from varnish_gateway._ghost import compile_regex
from varnish_gateway.api.meta import Metadata
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import wire
from varnish_gateway.translate.options import Options
from varnish_gateway.translate.policy.cache_patterns import compile_patterns
from varnish_gateway.translate.route.matches import regexes_of

LONG = 30 << 10
MOST_NAMES = 64
"""The most entries in a list of a cache policy."""
POOL = "bench/origin:80"
NO_BYPASS, ALL_PARAMETERS = wire.Bypass(), wire.QueryParameters()

Pattern = Callable[[int], str]


class Case(NamedTuple):
    """A request, and the rules that it is compared with: one for each route."""

    rules: Sequence[wire.Rule]
    target: bytes = b"/"
    headers: Sequence[tuple[bytes, bytes]] = ()

    @property
    def request(self) -> bytes:
        lines = ((b"Host", b"www.example.com"), (b"Connection", b"close"), *self.headers)
        head = b"".join(name + b": " + value + b"\r\n" for name, value in lines)
        return b"GET " + self.target + b" HTTP/1.1\r\n" + head + b"\r\n"


def cases() -> dict[str, Case]:
    """Return every case by its name."""
    return {**_of_headers(), **_of_targets(), **_of_policies()}


def measure(directory: Path, requests: int) -> dict[str, object]:
    """Return the CPU milliseconds of a request, for each case and the most of all."""
    with lab.origin(directory / "origin") as origin:
        taken = {
            name: _cpu(directory / name.replace(" ", "-"), case, requests, origin) for name, case in cases().items()
        }
    return {"CPU ms of requests": taken, "most CPU ms of a request": max(taken.values())}


# -- cases -----------------------------------------------------------------------------


def _of_headers() -> dict[str, Case]:
    """Patterns of matches, for a header."""
    dice = random.Random(1)
    letters = bytes(dice.choices(b"abmnopqrstuvwxyz", k=LONG))
    bits = bytes(dice.choices(b"ab", k=LONG))

    def case(routes: int, pattern: Pattern, *lines: bytes) -> Case:
        values = (wire.ValueMatch(name="x", value=pattern(number), type="regex") for number in range(routes))
        return Case(
            [_matching(wire.Match(headers=(value,))) for value in values], headers=[(b"x", one) for one in lines]
        )

    return {
        "small tables": case(128, lambda n: f".*b{n}", b"a" * LONG),
        "wide tables": case(64, lambda n: f".*[a-m].{{6}}x{n}", letters),
        "large tables": case(60, _large, bits),
        "simulated": case(64, lambda n: f".*a[a-z]{{15}}-{n}", b"a" * (4 << 10)),
        "boundaries": case(64, lambda n: f"(?u).*(?:\\B|ä){{8}}x{n}", "ä".encode() * 512),
        "many": case(8_000, lambda n: f"[b-z]{n}", b"a"),
        "many with a prefix": case(8_000, lambda n: f"b{n}.*", b"a"),
        "several lines": case(8_000, lambda n: f"[b-z]{n}", *(b"a" * (LONG // 2),) * 2),
    }


def _of_targets() -> dict[str, Case]:
    """Patterns of matches, for the path or a query parameter."""
    bits = bytes(random.Random(1).choices(b"ab", k=LONG))

    def path(routes: int, pattern: Pattern, text: bytes) -> Case:
        paths = (wire.PathMatch(type="regex", value=pattern(number)) for number in range(routes))
        return Case([_matching(wire.Match(path=one)) for one in paths], target=b"/" + text)

    def query(routes: int, pattern: Pattern, text: bytes) -> Case:
        values = (wire.ValueMatch(name="x", value=pattern(number), type="regex") for number in range(routes))
        return Case([_matching(wire.Match(query=(value,))) for value in values], target=b"/?" + text)

    return {
        "path in small tables": path(128, lambda n: f"/.*b{n}", b"a" * LONG),
        "path in large tables": path(60, lambda n: f"/{'q' * 80}|/(?:a|b)*a(?:a|b){{11}}x{n}", bits),
        "path in many": path(8_000, lambda n: f"/[b-z]{n}", b"a"),
        "query in small tables": query(128, lambda n: f".*b{n}", b"x=" + b"a" * LONG),
        "query in large tables": query(60, _large, b"x=" + bits),
        "query in many": query(8_000, lambda n: f"[b-z]{n}", b"&".join([b"y"] * (LONG // 2)) + b"&x=a"),
        "escaped query": query(128, lambda n: f".*b{n}", b"x=" + b"%61" * (LONG // 3)),
    }


def _of_policies() -> dict[str, Case]:
    """Patterns of a cache policy: the route has none of its own."""
    tables = tuple(wire.BypassHeader(name="x", value_regex=f".*b{number}") for number in range(MOST_NAMES))
    bits = (wire.BypassHeader(name="x", value_regex="(?:a|b)*a(?:a|b){8}x"),)
    dice = random.Random(1)
    cookie, names = b"; ".join([b"a"] * (LONG // 3)), b"&".join([b"a"] * (LONG // 2))
    globs = tuple(f"*b{number}" for number in range(MOST_NAMES))
    prefixes = tuple(f"b{number}*" for number in range(MOST_NAMES))
    both = wire.Bypass(headers=tables[:32], cookies=globs[:32])
    excluded = wire.QueryParameters(exclude=globs)
    return {
        "rule and bypass": _behind(20, _policy(bypass=wire.Bypass(headers=tables[:20]), x=b"a" * LONG)),
        "rule and key": _behind(20, _policy(query=excluded, target=names[:3_000], x=b"a" * (LONG - 3_000))),
        "bypass and key": _policy(
            bypass=wire.Bypass(headers=tables[:36]), query=excluded, target=names[:1_500], x=b"a" * (LONG - 1_500)
        ),
        "key and fetch": _policy(query=excluded, target=names[:5_600]),
        "bypass by header": _policy(bypass=wire.Bypass(headers=tables), x=b"a" * LONG),
        "bypass by header, large table": _policy(
            bypass=wire.Bypass(headers=bits), x=bytes(dice.choices(b"ab", k=LONG))
        ),
        "bypass by cookie globs": _policy(bypass=wire.Bypass(cookies=globs), cookie=cookie),
        "bypass by cookie prefixes": _policy(bypass=wire.Bypass(cookies=prefixes), cookie=cookie),
        "bypass by header and cookie": _policy(bypass=both, x=b"a" * (LONG // 2), cookie=cookie[: LONG // 2]),
        "query globs included": _policy(query=wire.QueryParameters(include=globs), target=names),
        "query globs excluded": _policy(query=wire.QueryParameters(exclude=globs), target=names),
        "query prefixes included": _policy(query=wire.QueryParameters(include=prefixes), target=names),
        "query prefixes excluded": _policy(query=wire.QueryParameters(exclude=prefixes), target=names),
        "long names excluded": _policy(
            query=wire.QueryParameters(exclude=globs), target=b"&".join([b"a" * 255] * (LONG // 256))
        ),
    }


def _large(number: int) -> str:
    """Return a pattern with a table of about 128 KiB."""
    return f"{'q' * 80}|(?:a|b)*a(?:a|b){{11}}x{number}"


def _policy(
    *,
    bypass: wire.Bypass = NO_BYPASS,
    query: wire.QueryParameters = ALL_PARAMETERS,
    target: bytes = b"",
    **headers: bytes,
) -> Case:
    policy = wire.CachePolicy(default_ttl=1000, bypass=bypass, cache_key=wire.CacheKey(query_parameters=query))
    rule = wire.Rule(backends=(wire.Backend(service="bench/origin", port=80),), cache=policy)
    return Case(
        [rule], target=b"/?" + target if target else b"/", headers=[(n.encode(), v) for n, v in headers.items()]
    )


def _behind(patterns: int, case: Case) -> Case:
    """Return the case with so many rules before its own that compare header x."""
    values = (wire.ValueMatch(name="x", value=f".*c{number}", type="regex") for number in range(patterns))
    return case._replace(rules=[*(_matching(wire.Match(headers=(value,))) for value in values), *case.rules])


def _matching(match: wire.Match) -> wire.Rule:
    return wire.Rule(matches=(match,), status=500)


# -- measuring -------------------------------------------------------------------------


def _cpu(directory: Path, case: Case, requests: int, origin: int) -> float:
    """Return the CPU milliseconds of the worker for each request."""
    _check_accepted(case)
    pool = {POOL: (wire.Endpoint(address="127.0.0.1", port=origin),)}
    config = lab.write_ghost(directory, [_route(number, rule) for number, rule in enumerate(case.rules)], pool)
    with lab.varnish(main_vcl(), directory, ghost_config=config) as running:
        _send(running.port, case)
        before = running.cpu_seconds()
        for _ in range(requests):
            _send(running.port, case)
        return round((running.cpu_seconds() - before) * 1000 / requests, 2)


def _check_accepted(case: Case) -> None:
    """Raise an error if the operator would reject the patterns, or ghost a policy."""
    patterns = {one for rule in case.rules for one in regexes_of(rule.matches)}
    compiled = [compile_regex(one) for one in patterns]
    policies = [compile_patterns(rule.cache, Metadata(name="p")) for rule in case.rules if rule.cache is not None]
    faults = [fault for _, fault in compiled if fault] + [policy.fault for policy in policies if policy.fault]
    if faults:
        raise RuntimeError(faults[0])
    if (charge := sum(charge for charge, _ in compiled)) > Options().gateway_regexes:
        raise RuntimeError(f"the patterns take {charge:,} bytes, more than those of a Gateway may")


def _route(number: int, rule: wire.Rule) -> wire.Route:
    return wire.Route(
        namespace="bench", name=f"route-{number}", attachments=(wire.Attachment(listener="http"),), rules=(rule,)
    )


def _send(port: int, case: Case) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(case.request)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    statuses = (b"200" if case.rules[-1].cache is not None else b"404", b"414", b"431")
    if not answer.startswith(tuple(b"HTTP/1.1 " + status for status in statuses)):
        raise RuntimeError(f"unexpected response: {answer[:200]!r}")
