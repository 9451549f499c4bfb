"""Run cases (cases/README.md) against a real varnishd.

In:   the documents of cases/*.yaml.
Out:  differences between the expectations of a case and what happens, in words; none is a pass.

One varnishd serves all cases one after the other: each replaces the objects of the one
before, and what changed is reloaded, as with ``vgw run`` and its files. Sockets keep the
names of the declared ports and are bound to free ones.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from support.http.client import SECONDS, Answer, Request, over_http1, over_http2
from support.http.origins import Origins, ReceivedRequest
from varnish_gateway.api import Key
from varnish_gateway.dataplane.assemble import assemble
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.emit.routing import Shards
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import Condition, GatewayStatus, RouteStatus
from varnish_gateway.standalone.files.manifests import read_manifest
from varnish_gateway.standalone.files.objects import Objects
from varnish_gateway.standalone.schema import Catalogue
from varnish_gateway.standalone.translation import file_translator

PORTS = (80, 8080, 8090)
"""Ports that listeners of cases may declare."""
GATEWAY = Key("Gateway", "default", "edge")
API = "gateway.networking.k8s.io/v1"
SIGMAS = 5.5
"""How far a share may be off: once in 26 million runs by chance."""

_REPEATED = re.compile(r"\{(\d+)\*([^}]*)\}")


# -- cases -----------------------------------------------------------------------------


class Row(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    why: str
    send: str = ""
    raw: str = ""
    host: str = "www.example.com"
    port: int = 0
    headers: list[str] = []
    body: str = ""
    origin: list[str] = []
    only: str = ""
    to: str = ""
    status: int | list[int] = 200
    saw: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    share: dict[str | int, float] = {}
    of: int = 0
    each: dict[str, dict[str, Any]] = {}


class Case(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    case: str
    about: str
    requests: list[Row]
    listeners: list[dict[str, Any]] = msgspec.field(default_factory=lambda: [{"name": "http", "port": 80}])
    services: list[str] = []
    without_endpoints: list[str] = []
    endpoints: dict[str, dict[str, str]] = {}
    routes: dict[str, dict[str, Any]] = {}
    objects: list[dict[str, Any]] = []
    status: dict[str, dict[str, Any]] = {}


def read_cases(path: Path) -> list[Case]:
    """Return the cases of a file; every text may hold repetitions such as {9000*a}."""
    documents = yaml.safe_load_all(path.read_text())
    return [msgspec.convert(_expanded(document), Case) for document in documents]


def _expanded(value: Any) -> Any:
    if isinstance(value, str):
        return _REPEATED.sub(lambda found: found[2] * int(found[1]), value)
    if isinstance(value, dict):
        return {key: _expanded(item) for key, item in value.items()}
    return [_expanded(item) for item in value] if isinstance(value, list) else value


def _names(name: str) -> tuple[str, str]:
    """Return namespace and name."""
    namespace, slash, rest = name.rpartition("/")
    return (namespace, rest) if slash else ("default", rest)


# -- objects ---------------------------------------------------------------------------


def documents_of(case: Case, ports: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield the objects that a case stands for; ``ports`` are those of the origins."""
    listeners = [{"protocol": "HTTP"} | listener for listener in case.listeners]
    yield _object(API, "Gateway", "default/edge", spec={"gatewayClassName": "varnish", "listeners": listeners})
    for name, spec in case.routes.items():
        parents = {"parentRefs": [{"name": "edge", "namespace": "default"}]}
        created = {"creationTimestamp": spec["created"]} if "created" in spec else {}
        rest = {key: value for key, value in spec.items() if key != "created"}
        yield _object(API, "HTTPRoute", name, created, spec=parents | rest)
    for name in (*case.services, *case.without_endpoints):
        yield _object("v1", "Service", name, spec={"ports": [{"name": "http", "port": 80}]})
    served = {name: {"http": name} for name in case.services} | case.endpoints
    for name, origins in served.items():
        for port_name, origin in origins.items():
            yield _slice(name, port_name, ports[origin])
    yield from case.objects


def _slice(service: str, port_name: str, port: int) -> dict[str, Any]:
    return _object(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        f"{service}-{port_name}",
        {"labels": {"kubernetes.io/service-name": _names(service)[1]}},
        addressType="IPv4",
        ports=[{"name": port_name, "port": port}],
        endpoints=[{"addresses": ["127.0.0.1"]}],
    )


def _object(version: str, kind: str, name: str, metadata: Mapping[str, Any] = {}, **content: Any) -> dict[str, Any]:
    namespace, name = _names(name)
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, **metadata},
        **content,
    }


# -- the harness ---------------------------------------------------------------------------


class CaseHarness:
    """A varnishd, origins, and the translation that leads from one case to the next."""

    def __init__(self, work_dir: Path) -> None:
        listen = ";".join(f"{name}=127.0.0.1:0,http" for name in ("ghost-reload", *(f"http-{p}" for p in PORTS)))
        # Without TLS too, whether or not this varnishd limits rapid resets.
        with_http2 = ("-p", "feature=+http2")
        self._plane = assemble(Settings(work_dir=work_dir, sockets=parse_listen(listen), extra_args=with_http2))
        self._origins = Origins()
        self._catalogue = Catalogue()
        self._objects = Objects()
        self._translator = file_translator()
        self._shards = Shards()
        self._statuses: dict[Key, Any] = {}
        self._ports: dict[str, int] = {}

    async def start(self) -> None:
        await self._plane.start()
        await self._apply(Change(vcl=main_vcl()))
        addresses = await self._plane.admin.listen_addresses()
        self._ports = {address.name: address.port for address in addresses}

    async def close(self) -> None:
        await self._plane.stop(drain_seconds=0)
        await self._origins.close()

    def port(self, declared: int) -> int:
        """Return the port that stands for a declared one."""
        return self._ports[f"http-{declared}"]

    async def run(self, case: Case) -> list[str]:
        """Put a case in force and return every difference."""
        await self.put_in_force(case)
        found = list(_status_differences(case, self._statuses))
        for row in case.requests:
            for protocol in _protocols(row):
                try:
                    differences = await self._try(case, row, protocol)
                except TimeoutError:
                    differences = [f"no answer within {SECONDS:g} s"]
                found += [_described(row, protocol, difference) for difference in differences]
        return found

    async def put_in_force(self, case: Case) -> None:
        """Replace the objects of the case before by those of this one."""
        origins = {*case.services, *(name for ports in case.endpoints.values() for name in ports.values())}
        ports = {name: await self._origins.port("/".join(_names(name))) for name in origins}
        text = yaml.safe_dump_all(documents_of(case, ports))
        reading = read_manifest(f"{case.case}.yaml", text.encode(), self._catalogue)
        assert not reading.complaints, "\n".join(map(str, reading.complaints))
        changed = self._objects.update({"case": reading}).objects
        delta = self._translator.update(changed)
        self._statuses |= delta.statuses
        slices = {key: obj for key, obj in changed.items() if key.kind == "EndpointSlice"}
        routing: Mapping[int, bytes | None] = {}
        if (gateway := delta.gateways.get(GATEWAY)) is not None:
            routing = self._shards.update(listeners=gateway.listeners, routes=gateway.routes)
        await self._apply(Change(routing=routing, slices=slices))

    async def _apply(self, change: Change) -> None:
        outcome = await self._plane.apply(change)
        assert outcome.serves, outcome.problems

    async def _try(self, case: Case, row: Row, protocol: str) -> list[str]:
        port = self.port(row.port or case.listeners[0]["port"])
        if not row.share:
            return list(_differences(row, await _ask(row, port, protocol)))
        answers = [await _ask(row, port, protocol) for _ in range(row.of)]
        found = list(_share_differences(row, answers))
        for name, expected in row.each.items():
            part = msgspec.structs.replace(row, to=name, share={}, each={}, **expected)
            ours = [answer for answer in answers if answer.answered_by == "/".join(_names(name))]
            found += [difference for answer in ours for difference in _differences(part, answer)]
        return found


def _protocols(row: Row) -> Sequence[str]:
    if row.raw or row.share:
        return ["http1"]  # raw bytes are, and a share is the same over both
    return [row.only] if row.only else ["http1", "http2"]


async def _ask(row: Row, port: int, protocol: str) -> Answer:
    if row.raw:
        return await over_http1(port, row.raw.encode("latin-1"))
    method, _, target = row.send.partition(" ")
    headers = tuple((name, value) for name, _, value in (line.partition(":") for line in row.headers))
    if row.origin:
        headers += (("Echo-Answer", json.dumps(row.origin)),)
    request = Request(method=method, target=target, host=row.host, headers=headers, body=row.body)
    if protocol == "http2":
        return (await over_http2(port, [request]))[0]
    return await over_http1(port, request.as_http1())


# -- comparison ------------------------------------------------------------------------


def _status_differences(case: Case, statuses: Mapping[Key, Any]) -> Iterator[str]:
    for name, expected in case.status.get("routes", {}).items():
        status = statuses.get(Key("HTTPRoute", *_names(name)))
        parents = status.parents if isinstance(status, RouteStatus) else ()
        each = expected if isinstance(expected, list) else [expected] * max(len(parents), 1)
        if len(each) != len(parents):
            yield f"HTTPRoute {name}: expected {len(each)} parents, has {len(parents)}"
        for parent, expectations in zip(parents, each, strict=False):
            yield from _condition_differences(f"HTTPRoute {name}", parent.conditions, expectations)
    status = statuses.get(GATEWAY)
    listeners = {found.name: found for found in status.listeners} if isinstance(status, GatewayStatus) else {}
    for name, expected in case.status.get("listeners", {}).items():
        expectations = {key: value for key, value in expected.items() if key != "attached"}
        yield from _condition_differences(f"listener {name}", listeners[name].conditions, expectations)
        if expected.get("attached") not in (None, listeners[name].attached_routes):
            yield f"listener {name}: expected {expected['attached']} routes, has {listeners[name].attached_routes}"


def _condition_differences(
    subject: str, conditions: Sequence[Condition], expectations: Mapping[str, str]
) -> Iterator[str]:
    found = {condition.type: condition for condition in conditions}
    for kind, expected in expectations.items():
        condition = found.get(kind)
        if condition is None:
            yield f"{subject}: expected {kind} {expected}, there is no such condition"
        elif expected not in (condition.status, f"{condition.status} {condition.reason}"):
            state = f"{condition.status} {condition.reason}: {condition.message}"
            yield f"{subject}: expected {kind} {expected}, is {state}"


def _differences(row: Row, answer: Answer) -> Iterator[str]:
    expected = {"/".join(_names(row.to))} if row.to else set(_statuses(row))
    if answer.answered_by not in expected:
        yield f"expected {_one_of(expected)}, got {answer.answered_by}"
        return
    yield from _header_differences("response", answer.headers, row.answers)
    if row.saw:
        yield from _seen_differences(row.saw, msgspec.json.decode(answer.body, type=ReceivedRequest))


def _statuses(row: Row) -> Sequence[int]:
    return row.status if isinstance(row.status, list) else [row.status]


def _one_of(expected: set[str] | set[int]) -> str:
    return " or ".join(map(str, expected))


def _seen_differences(expectations: Mapping[str, Any], seen: ReceivedRequest) -> Iterator[str]:
    plain = {"method": seen.method, "target": seen.target, "body": seen.body}
    for name, value in expectations.items():
        if name == "headers":
            yield from _header_differences("request", seen.headers, value)
        elif name == "host":
            yield from _header_differences("request", seen.headers, {"host": [value]})
        elif plain[name] != value:
            yield f"{name} of the request: expected {_short(value)}, the Service saw {_short(plain[name])}"


def _header_differences(
    subject: str, headers: Sequence[tuple[str, str]], expectations: Mapping[str, Any]
) -> Iterator[str]:
    for name, value in expectations.items():
        lines = [line for header, line in headers if header.lower() == name.lower()]
        found: Any = lines if isinstance(value, list) else ",".join(lines) if lines else None
        if found != value:
            yield f"header {name} of the {subject}: expected {_short(value)}, is {_short(found)}"


def _share_differences(row: Row, answers: Sequence[Answer]) -> Iterator[str]:
    counts = Counter(answer.answered_by for answer in answers)
    shares = {name if isinstance(name, int) else "/".join(_names(name)): part for name, part in row.share.items()}
    for name in counts.keys() | shares.keys():
        part, got = shares.get(name, 0.0), counts[name] / row.of
        if abs(got - part) > SIGMAS * math.sqrt(part * (1 - part) / row.of) + 0.001:
            yield f"expected a share of {part:.1%} for {name}, got {got:.1%} of {row.of}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:100]}… ({len(text)} characters)"


def _described(row: Row, protocol: str, difference: str) -> str:
    asked = row.raw or " ".join([row.send, f"(Host: {row.host})", *row.headers])
    return f"{_short(asked)} over {protocol}: {difference}\n    why: {row.why}"
