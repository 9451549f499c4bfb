"""Invalidations from a client's request to varnishd: ``vgw run``, ``vgw chaperone``, ``vgw purge``."""

import asyncio
import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from loopback import free_port
from support.directories import replace
from support.http.client import Answer, Request, ask, over_http1
from support.http.origins import Origins
from support.manifests import USER_VCL_CLASS, service, user_vcl
from support.processes import children, descendants, program
from support.varnish.caching import outcome, parameters
from support.vgw_process import VgwProcess, vgw_run
from support.waiting import until_async

HOST = "shop.example.com"
ALL, TEA = "token-for-everything", "token-for-tea-alone"
TOKENS = [
    {"name": "all", "token": ALL},
    {"name": "tea", "token": TEA, "namespaces": ["tea"]},
    {"name": "none", "token": "token-for-nothing-here", "namespaces": ["empty"]},
]


def gateway_class(name: str, **spec: object) -> str:
    controlled = {"controllerName": "varnish-software.com/gateway", **spec}
    head = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": name}}
    return json.dumps({**head, "spec": controlled}) + "\n"


def parameters_of_class(name: str, **spec: object) -> str:
    head = {"apiVersion": "gateway.varnish-software.com/v1alpha1", "kind": "GatewayClassParameters"}
    return json.dumps({**head, "metadata": {"name": name}, "spec": spec}) + "\n"


class Shop:
    """A Gateway from files that caches; route ``tea/tea`` has /tea, ``default/rest`` the rest."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.conf = directory / "conf"
        self.conf.mkdir()
        self.port, self.health = free_port(), free_port()
        self.tokens = directory / "tokens.json"
        self.tokens.write_text(json.dumps({"tokens": TOKENS}))
        self.process: VgwProcess

    @property
    def options(self) -> tuple[str, ...]:
        health = ("--health-addr", f"127.0.0.1:{self.health}", "--invalidation-tokens", str(self.tokens))
        return ("--work-dir", str(self.directory / "work"), *health)

    def write(self, name: str, text: str) -> None:
        replace(self.conf / f"{name}.yaml", text)

    async def get(self, target: str, *headers: tuple[str, str], tags: str = "", port: int = 0) -> Answer:
        answer = ("Echo-Answer", json.dumps([f"Surrogate-Key: {tags}"] if tags else []))
        request = Request(method="GET", target=target, host=HOST, headers=(answer, *headers))
        return await over_http1(port or self.port, request.as_http1())

    async def outcome(self, target: str, *headers: tuple[str, str], tags: str = "", port: int = 0) -> str:
        """Return whether the cache has it: "hit", or why not."""
        return outcome(await self.get(target, *headers, tags=tags, port=port))

    async def post(self, *targets: dict[str, object], token: str = ALL, **fields: object) -> tuple[int, dict]:
        url = f"http://127.0.0.1:{self.health}/invalidate"
        headers = {"Authorization": f"Bearer {token}"}
        document = {"targets": targets, **fields}
        body = io.BytesIO(json.dumps(document).encode())
        async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def invalidate(self, *targets: dict[str, object], **fields: object) -> list[int]:
        status, content = await self.post(*targets, **fields)
        assert status == 200, content
        return content["objects"]


def caching_gateway(name: str, port: int) -> str:
    listener = f"name: http, port: {port}, protocol: HTTP, allowedRoutes: {{namespaces: {{from: All}}}}"
    return f"""\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: {name}}}
spec: {{gatewayClassName: varnish, listeners: [{{{listener}}}]}}
---
apiVersion: gateway.varnish-software.com/v1alpha1
kind: VarnishCachePolicy
metadata: {{name: {name}}}
spec:
  targetRef: {{group: gateway.networking.k8s.io, kind: Gateway, name: {name}}}
  defaultTTL: 1h
  staleWhileRevalidate: 1h
  cacheStatus: 'On'
  tagHeaders: [Surrogate-Key]
  cacheKey: {{headers: [x-site]}}
"""


def route(namespace: str, name: str, path: str, gateway: str = "shop") -> str:
    return f"""\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  parentRefs: [{{name: {gateway}, namespace: default}}]
  hostnames: [{HOST}]
  rules: [{{matches: [{{path: {{value: {path}}}}}], backendRefs: [{{name: echo, port: 80}}]}}]
"""


@pytest.fixture
async def shop(workdir: Path, origins: Origins) -> AsyncIterator[Shop]:
    shop = Shop(workdir)
    port = await origins.port("echo")
    shop.write("gateway", caching_gateway("shop", shop.port))
    shop.write("rest", f"{route('default', 'rest', '/')}---\n{service('echo', port)}")
    of_tea = service("echo", port).replace("metadata: {", "metadata: {namespace: tea, ")
    shop.write("tea", f"{route('tea', 'tea', '/tea')}---\n{of_tea}")
    async with vgw_run(shop.conf, options=shop.options) as shop.process:
        await serves(shop.port)
        yield shop


async def serves(port: int) -> None:
    async def is_cached() -> bool:
        answer = await ask(port, HOST, "/warm")
        return answer.status == 200 and outcome(answer) == "hit"

    await until_async(is_cached, "the gateway caches")


async def fill(shop: Shop, *targets: str, tags: str = "") -> None:
    for target in targets:
        await shop.get(target, tags=tags)
        assert await shop.outcome(target, tags=tags) == "hit"


async def purge(shop: Shop, *arguments: str, token: str = ALL) -> tuple[int, str, str]:
    """Run ``vgw purge``; return its status, output and errors."""
    file = shop.directory / "token"
    file.write_text(token)
    command = ("-m", "varnish_gateway", "purge", "--address", f"127.0.0.1:{shop.health}", "--token-file", str(file))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *command, *arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 20)
    return process.returncode, out.decode(), err.decode()


async def test_purged_url_is_fetched_again_in_all_its_variants_and_no_other(shop):
    await fill(shop, "/a?x=1", "/b")
    await shop.get("/a?x=1", ("x-site", "two"))
    url = f"https://{HOST}/a?x=1"
    assert await purge(shop, url) == (0, f"       2  {url}\n", "")
    assert [await shop.outcome(target) for target in ("/a?x=1", "/b")] == ["uri-miss", "hit"]
    assert await shop.outcome("/a?x=1", ("x-site", "two")) == "uri-miss"
    assert await purge(shop, f"https://{HOST}/never") == (0, f"       0  https://{HOST}/never\n", "")


async def test_each_kind_of_target_hits_its_objects(shop):
    async def left(*targets: str) -> list[str]:
        return [target for target in targets if await shop.outcome(target) == "hit"]

    await fill(shop, "/li/1", "/li/2", "/l", "/v1/x", "/tea/1")
    await fill(shop, "/tagged", tags="a b%c")
    where = ("--prefix", f"http://{HOST}:8080/li", "--matching", HOST, "^/v[0-9]/")
    status, out, _ = await purge(shop, *where, "--tag", "b%c", "--route", "tea/tea")
    assert status == 0
    assert [int(line.split()[0]) for line in out.splitlines()] == [2, 1, 1, 1]
    assert await left("/li/1", "/li/2", "/l", "/v1/x", "/tea/1", "/tagged") == ["/l"]
    status, out, _ = await purge(shop, "--host", HOST, "--everything")
    assert (status, [int(line.split()[0]) > 0 for line in out.splitlines()]) == (0, [True, False])
    assert await shop.outcome("/l") == "uri-miss"


async def test_soft_purge_leaves_a_stale_response_for_one_more_client(shop):
    await fill(shop, "/a")
    assert await purge(shop, "--soft", f"https://{HOST}/a") == (0, f"       1  https://{HOST}/a\n", "")
    cached = parameters(await shop.get("/a"))
    assert ("hit" in cached, int(cached["ttl"]) <= 0) == (True, True)

    async def is_fresh() -> bool:
        return int(parameters(await shop.get("/a")).get("ttl", "0")) > 0

    await until_async(is_fresh, "the refresh")


async def test_token_with_a_scope_reaches_objects_of_its_routes_alone(shop):
    await fill(shop, "/tea/1", "/rest/1")
    await fill(shop, "/tea/2", "/rest/2", tags="news")
    assert await shop.invalidate({"tags": ["news"]}, token=TEA) == [1]
    assert await shop.outcome("/rest/2", tags="news") == "hit"
    assert await shop.invalidate({"host": HOST}, {"everything": True}, token=TEA) == [1, 0]
    assert [await shop.outcome(target) for target in ("/tea/1", "/rest/1")] == ["uri-miss", "hit"]
    status, _, err = await purge(shop, "--route", "default/rest", token=TEA)
    assert (status, "answered 403: targets[0].route: the token isn't for default/rest" in err) == (1, True)
    assert await shop.invalidate({"everything": True}, token="token-for-nothing-here") == [0]
    assert await shop.outcome("/rest/1") == "hit"


async def test_token_of_a_namespace_reaches_what_its_removed_routes_have_stored(shop):
    await fill(shop, "/tea/1", "/rest/1")
    (shop.conf / "tea.yaml").unlink()

    async def is_gone() -> bool:
        return await shop.outcome("/tea/1") == "uri-miss"

    await until_async(is_gone, "the other route serves")
    before = await shop.invalidate({"everything": True}, token="token-for-nothing-here")
    assert (before, await shop.invalidate({"everything": True}, token=TEA)) == ([0], [1])
    assert await shop.outcome("/rest/1") == "hit"


async def test_bad_requests_change_nothing_and_say_why(shop):
    await fill(shop, "/a")
    status, content = await shop.post({"everything": True}, token="none-that-is-known")
    assert (status, "Authorization" in content["error"]) == (401, True)
    status, content = await shop.post({"host": HOST}, {"matching": {"host": HOST, "pattern": "("}})
    assert (status, content["error"].split(":")[0]) == (400, "targets[1].matching.pattern")
    status, content = await shop.post({"host": HOST}, {"uri": {"host": HOST, "target": "a"}})
    assert (status, content["error"].split(":")[0]) == (400, "targets[1].uri.target")
    assert await shop.outcome("/a") == "hit"


async def test_ten_thousand_tags_at_once(shop):
    await fill(shop, "/a", tags="tag-9999-" + "x" * 200)
    tags = [f"tag-{number}-" + "x" * 200 for number in range(10_000)]
    assert await shop.invalidate({"tags": tags}) == [1]


async def test_changed_tokens_count_at_once_and_none_is_logged(shop):
    assert (await shop.post({"everything": True}))[0] == 200
    replace(shop.tokens, json.dumps({"tokens": TOKENS[1:]}))
    assert (await shop.post({"everything": True}))[0] == 401
    shop.tokens.unlink()
    assert (await shop.post({"everything": True}))[0] == 404
    shop.tokens.write_text(json.dumps({"tokens": TOKENS}))
    assert (await shop.post({"everything": True}))[0] == 200
    record = await shop.process.wait_for_record(lambda record: record.get("fields", {}).get("event") == "Invalidated")
    assert (record["fields"]["client"], record["fields"]["gateway"]) == ("all", "default/shop")
    logged = json.dumps(shop.process.log)
    assert "requests without a valid token" in logged
    assert [token["token"] for token in TOKENS if token["token"] in logged] == []


async def test_all_gateways_of_the_files_are_invalidated(shop):
    other = free_port()
    shop.write("other", f"{caching_gateway('other', other)}---\n{route('default', 'to-other', '/', 'other')}")
    await serves(other)
    await fill(shop, "/a")
    await shop.get("/a", port=other)
    assert await shop.outcome("/a", port=other) == "hit"
    assert await shop.invalidate({"uri": {"host": HOST, "target": "/a"}}) == [2]
    assert await shop.outcome("/a", port=other) == "uri-miss"


async def test_gateway_that_cannot_carry_it_out_keeps_the_others_from_it(shop):
    """One Gateway rejects a path, the other one serves it."""
    other = free_port()
    strict = caching_gateway("other", other).replace("gatewayClassName: varnish", "gatewayClassName: strict")
    ref = {"group": "gateway.varnish-software.com", "kind": "GatewayClassParameters", "name": "strict"}
    classes = (gateway_class("varnish"), gateway_class("strict", parametersRef=ref))
    rejecting = parameters_of_class("strict", paths={"reject": ["%2F"]})
    shop.write("other", "---\n".join((*classes, rejecting, strict, route("default", "to-other", "/", "other"))))
    await serves(other)
    await fill(shop, "/a%2Fb", "/c")
    status, content = await shop.post({"host": HOST}, {"uri": {"host": HOST, "target": "/a%2Fb"}})
    reason = "Gateway default/other: targets[1].uri.target: is no path"
    assert (status, content["error"].startswith(reason)) == (400, True), content
    assert content["error"].endswith("; nothing is carried out")
    assert [await shop.outcome(target) for target in ("/a%2Fb", "/c")] == ["hit", "hit"]


async def test_gateway_that_never_served_keeps_no_other_from_a_confirmation(shop):
    plain_class = USER_VCL_CLASS.partition("  parametersRef")[0]
    other_class = USER_VCL_CLASS.replace("{name: varnish}", "{name: other}")
    broken = caching_gateway("other", free_port()).replace("gatewayClassName: varnish", "gatewayClassName: other")
    shop.write("other", "---\n".join((plain_class, other_class, user_vcl("nonsense"), broken)))
    await shop.process.wait_for_record(lambda record: record.get("fields", {}).get("event") == "VclFailed")
    await fill(shop, "/a")
    assert await shop.invalidate({"uri": {"host": HOST, "target": "/a"}}) == [1]


async def test_class_names_the_addresses_that_may_send_purge(shop):
    """A change reaches the running gateway, and the cache stays."""

    async def purge(target: str) -> tuple[int, dict]:
        request = Request(method="PURGE", target=target, host=HOST)
        answer = await over_http1(shop.port, request.as_http1())
        return answer.status, answer.json if answer.values("content-type") == ["application/json"] else {}

    def allow(addresses: str) -> None:
        methods = f"invalidation: {{methods: {{allowedSourceRanges: [{addresses}]}}}}"
        shop.write("class", f"{USER_VCL_CLASS.partition('  userVCLConfigMapRef')[0]}  {methods}\n")

    await fill(shop, "/tea/1", "/rest/1")
    assert "objects" not in (await purge("/tea/1"))[1], "off: the backend answers"
    await fill(shop, "/tea/1")
    allow("192.0.2.0/24")

    async def is_denied() -> bool:
        return (await purge("/none"))[0] == 405

    await until_async(is_denied, "the parameters are in force")
    assert await shop.outcome("/tea/1") == "hit"
    allow("192.0.2.0/24, 127.0.0.0/8")

    async def is_allowed() -> bool:
        status, content = await purge("/none")
        return (status, content.get("objects")) == (200, 0)

    await until_async(is_allowed, "the parameters are in force")
    assert await purge("/tea/1") == (200, {"namespace": "tea", "objects": 1})
    assert [await shop.outcome(target) for target in ("/tea/1", "/rest/1")] == ["uri-miss", "hit"]
    metrics = (await ask(shop.health, HOST, "/metrics")).body.decode()
    assert 'vgw_purge_requests_total{gateway="default/shop",result="denied"}' in metrics


async def test_worker_that_dies_is_confirmed_again_when_it_is_back(shop):
    await fill(shop, "/a")
    (manager,) = [pid for pid in children(shop.process.process.pid) if program(pid) == "varnishd"]
    (worker,) = descendants(manager)
    os.kill(worker, signal.SIGKILL)
    statuses = set()

    async def is_back() -> bool:
        status, content = await shop.post({"everything": True})
        statuses.add(status)
        return status == 200 and content == {"objects": [0]}

    await until_async(is_back, "a confirmation")
    assert statuses <= {200, 503}
    await fill(shop, "/a")
    assert await shop.invalidate({"everything": True}) == [2 if await shop.outcome("/warm") == "hit" else 1]


def invalidation(name: str, namespace: str = "default", **spec: object) -> str:
    document = {
        "apiVersion": "gateway.varnish-software.com/v1alpha1",
        "kind": "VarnishCacheInvalidation",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"gatewayRef": {"name": "shop", "namespace": "default"}, **spec},
    }
    return json.dumps(document)


async def phase(shop: Shop, name: str) -> tuple[str, int]:
    """Wait until an invalidation of the files ends; return its phase with the number of objects."""
    found: dict[str, object] = {}

    async def has_ended() -> bool:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{shop.health}/ready") as answer:
            found.update((await answer.json())["invalidations"].get(name, {}))
        return found.get("phase") in ("Complete", "Failed")

    await until_async(has_ended, f"{name} ends")
    return found["phase"], found["objects"]


async def test_invalidation_in_a_file_is_carried_out_once_and_again_when_it_is_edited(shop):
    await fill(shop, "/a", "/b", "/tea/1")
    shop.write("purge", invalidation("one", hostname=HOST, paths=["/a"]))
    await shop.process.wait_for_message("VarnishCacheInvalidation default/one: Complete, 1 objects: /a 1")
    assert await phase(shop, "default/one") == ("Complete", 1)
    assert [await shop.outcome(target) for target in ("/a", "/b")] == ["uri-miss", "hit"]
    shop.process.process.send_signal(signal.SIGHUP)
    shop.write("tea", f"# nothing new\n{invalidation('two', 'tea', hostname=HOST)}")
    assert await phase(shop, "tea/two") == ("Failed", 0), "the file has its route no more"
    shop.write("purge", invalidation("one", hostname=HOST, paths=["/b"]))
    await shop.process.wait_for_message("VarnishCacheInvalidation default/one: Complete, 1 objects: /b 1")
    assert [await shop.outcome(target) for target in ("/a", "/b")] == ["hit", "uri-miss"]
    carried_out = [one for one in shop.process.log if one.get("fields", {}).get("event") == "Invalidated"]
    assert len(carried_out) == 2


async def test_invalidation_of_another_namespace_reaches_its_own_routes(shop):
    await fill(shop, "/rest/1", "/tea/1")
    shop.write("purge", invalidation("one", "tea", hostname=HOST))
    assert await phase(shop, "tea/one") == ("Complete", 1)
    assert [await shop.outcome(target) for target in ("/tea/1", "/rest/1")] == ["uri-miss", "hit"]


async def test_wrong_invalidation_in_a_file_is_reported_with_its_line_also_at_the_start(shop):
    shop.write("purge", invalidation("one", hostname=HOST, type="Ban", paths=["("]))
    place = f"{shop.conf}/purge.yaml:1: VarnishCacheInvalidation default/one: not Accepted (Invalid): "
    await shop.process.wait_for_message(f"{place}targets[0].matching.pattern: ")
    assert await phase(shop, "default/one") == ("Failed", 0)
    await shop.process.stop()
    async with vgw_run(shop.conf, options=shop.options) as shop.process:
        await shop.process.wait_for_message("VarnishCacheInvalidation default/one: Complete, 0 objects: nothing was")
        await shop.process.wait_for_message(f"{place}targets[0].matching.pattern: ")


async def explain(shop: Shop, url: str, token: str = ALL) -> list[str]:
    """Run ``vgw explain --live``; return its lines about what is stored."""
    file = shop.directory / "token"
    file.write_text(token)
    options = ("--live", "--address", f"127.0.0.1:{shop.health}", "--token-file", str(file))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "varnish_gateway", "explain", str(shop.conf), "GET", url, *options),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 20)
    lines = out.decode().splitlines()
    return lines[next(number for number, line in enumerate(lines) if line.startswith("Stored")) :]


async def test_explain_tells_what_the_running_gateway_has_stored(shop):
    await fill(shop, "/tea/1?b=1&a=2", tags="news")
    await shop.get("/tea/1?b=1&a=2", ("x-site", "two"))
    lines = await explain(shop, f"http://{HOST}:{shop.port}/tea/1?a=2&b=1")
    assert [line.startswith("Stored     fresh for 3,") for line in lines if line.startswith("Stored")] == [True, True]
    assert sorted(", 1 hits, " in line for line in lines if line.startswith("Stored")) == [False, True]
    assert lines.count("           by default/shop, rule tea/tea/0") == 2
    assert "           tags news" in lines
    nothing = ["Stored     nothing that the token is for"]
    assert await explain(shop, f"http://{HOST}:{shop.port}/tea/2") == nothing
    assert await explain(shop, f"http://{HOST}:{shop.port}/tea/1?b=1&a=2", TEA) != nothing
    await fill(shop, "/rest/1")
    assert await explain(shop, f"http://{HOST}:{shop.port}/rest/1", TEA) == nothing


@pytest.fixture
async def chaperone(workdir: Path, shop: Shop) -> AsyncIterator[Callable[[dict[str, str]], Awaitable[int]]]:
    """Give what starts a chaperone from what ``vgw translate`` writes; it returns the port of /invalidate."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(environment: dict[str, str]) -> int:
            port, health = free_port(), free_port()
            translated = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "varnish_gateway", "translate", "-o", "json", str(shop.conf)),
                stdout=asyncio.subprocess.PIPE,
            )
            (gateway,) = json.loads((await translated.communicate())[0])["gateways"]
            directory = workdir / "chaperone"
            directory.mkdir()
            (directory / "main.vcl").write_text(gateway["vcl"])
            listen = gateway["listen"].replace(f"={shop.port}", f"={port}").replace(f":{shop.port},", f":{port},")
            document = {"version": 2, "listeners": gateway["listeners"], "routes": gateway["routes"]}
            (directory / "routing.json").write_text(json.dumps(document))
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "varnish_gateway", "chaperone"),
                env={
                    **os.environ,
                    "WORK_DIR": str(directory / "work"),
                    "VCL_PATH": str(directory / "main.vcl"),
                    "ROUTING_CONFIG_PATH": str(directory / "routing.json"),
                    "ENDPOINTS_PATH": str(shop.conf),
                    "VARNISH_LISTEN": listen,
                    "VARNISH_ADMIN_PORT": "0",
                    "HEALTH_ADDR": f"127.0.0.1:{health}",
                    "DRAIN_SECONDS": "0.1",
                    **environment,
                },
                stderr=asyncio.subprocess.DEVNULL,
            )
            stack.push_async_callback(process.wait)
            stack.callback(process.terminate)
            shop.port, shop.health = port, health
            await serves(port)
            return health

        yield start


async def test_chaperone_takes_invalidations_for_tokens_of_its_file(chaperone, shop):
    await chaperone({"INVALIDATION_TOKENS_FILE": str(shop.tokens)})
    await fill(shop, "/tea/1")
    assert await shop.invalidate({"route": "tea/tea"}, token=TEA) == [1]
    assert await shop.outcome("/tea/1") == "uri-miss"


async def test_chaperone_tells_what_it_has_stored(chaperone, shop):
    await chaperone({"INVALIDATION_TOKENS_FILE": str(shop.tokens)})
    await fill(shop, "/tea/1")
    url = f"http://127.0.0.1:{shop.health}/inspect"
    headers, body = {"Authorization": f"Bearer {TEA}"}, {"host": HOST, "target": "/tea/1"}
    async with aiohttp.ClientSession() as session, session.post(url, json=body, headers=headers) as answer:
        ((gateway,),) = (await answer.json()).values()
    assert (gateway["name"], [one["rule"] for one in gateway["variants"]]) == ("", ["tea/tea/0"])
