"""Files to data planes, with planes that only record calls."""

import asyncio
import logging

import pytest

from support.held_regexes import HeldRegexes
from support.waiting import until_async
from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.standalone import engine as module
from varnish_gateway.standalone.engine import LONGEST_NAME, MANY, Engine, directory_name
from varnish_gateway.translate.route import regexes

CAFE, OTHER = Key("Gateway", "default", "cafe"), Key("Gateway", "default", "other")


class Recorder:
    """Stands for Plane."""

    def __init__(self, key, work_dir, report, *, after, tokens):
        self.after, self.tokens = after, tokens
        self.key, self.work_dir, self.report = key, work_dir, report
        self.updates: list[tuple[object, object]] = []
        self.closed = False
        self.ports, self.former_ports, self.needed, self.listeners = frozenset(), frozenset(), frozenset(), ()
        self.task = asyncio.get_running_loop().create_future()

    def update(self, delta, slices, *, is_whole=False) -> None:
        self.updates.append((delta, dict(slices)))
        self.is_whole = is_whole

    def need(self, ports) -> None:
        self.needed = ports

    async def drain(self) -> None: ...

    async def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _planes_that_note(monkeypatch):
    monkeypatch.setattr(module, "Plane", Recorder)


@pytest.fixture
def conf(tmp_path):
    (tmp_path / "gateway.yaml").write_text(gateway("cafe", 8080))
    return tmp_path


@pytest.fixture
async def engine(conf):
    made = Engine([str(conf)], conf / "work", conf / "tokens.json")
    yield made
    await made.close()


def gateway(name: str, port: int) -> str:
    return (
        f"apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: {name}}}\n"
        f"spec: {{gatewayClassName: varnish, listeners: [{{name: http, port: {port}, protocol: HTTP}}]}}\n"
    )


def listener_set(name: str, gateway_name: str) -> str:
    return (
        f"apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {{name: {name}}}\n"
        f"spec: {{parentRef: {{name: {gateway_name}}}, "
        f"listeners: [{{name: http, port: 8080, protocol: HTTP, hostname: {name}.example.com}}]}}\n"
    )


def route(name: str) -> str:
    return (
        f"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}}}\n"
        f"spec: {{parentRefs: [{{name: cafe}}], rules: [{{}}]}}\n"
    )


def endpoints(port: int) -> str:
    return (
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
        "metadata: {name: tea, labels: {kubernetes.io/service-name: tea}}\n"
        f"addressType: IPv4\nendpoints: [{{addresses: [127.0.0.1]}}]\nports: [{{port: {port}}}]\n"
    )


def write(engine: Engine, conf, **files: str | None) -> None:
    for name, text in files.items():
        path = conf / f"{name}.yaml"
        path.unlink() if text is None else path.write_text(text)
    engine.update([str(conf / f"{name}.yaml") for name in files])


async def test_each_gateway_has_a_plane(engine, conf):
    write(engine, conf, gateway=gateway("cafe", 8080), other=gateway("other", 8081))
    assert engine.planes.keys() == {CAFE, OTHER}
    assert engine.planes[CAFE].work_dir.name == "default.cafe"
    assert engine.planes[CAFE].tokens == conf / "tokens.json", "its varnishd must not read them"
    write(engine, conf, route=route("a"))
    assert (len(engine.planes[CAFE].updates), len(engine.planes[OTHER].updates)) == (2, 1), "only what changed"
    other = engine.planes[OTHER]
    write(engine, conf, other=None)
    assert engine.planes.keys() == {CAFE}
    write(engine, conf, other=gateway("other", 8081))
    assert engine.planes[OTHER].after is not None, "one of the same name waits for the first one's end"
    await engine.close()
    assert other.closed
    assert engine.planes[OTHER].closed


@pytest.mark.parametrize(
    ("text", "where"),
    [("a: [\n", ":1: "), (route("a").replace("rules", "rulez"), ":4: HTTPRoute default/a")],
    ids=["syntax", "schema"],
)
async def test_rejected_file_is_a_problem_with_its_line_until_it_is_corrected(engine, conf, text, where):
    write(engine, conf, gateway=gateway("cafe", 8080), route=route("a"))
    assert (engine.is_up_to_date, engine.rejections) == (True, 0)
    write(engine, conf, route=text)
    write(engine, conf, other=gateway("other", 8081))
    assert (engine.is_up_to_date, engine.rejections) == (False, 1)
    (problem,) = engine.problems
    assert problem.startswith(f"{conf}/route.yaml{where}")
    write(engine, conf, route=route("a"))
    assert (engine.is_up_to_date, engine.problems) == (True, [])


async def test_typo_in_the_class_freezes_the_gateway_until_it_is_corrected(engine, conf, caplog):
    write(engine, conf, gateway=gateway("cafe", 8080), route=route("a"), more=route("b"))
    plane = engine.planes[CAFE]
    write(engine, conf, gateway=gateway("cafe", 8080).replace("varnish,", "varnsh,"))
    assert engine.planes == {CAFE: plane}
    assert not plane.closed
    message = f"{conf}/gateway.yaml:1: Gateway default/cafe: spec.gatewayClassName: no file defines the GatewayClass"
    (problem,) = engine.problems
    assert problem == f'{message} "varnsh"; did you mean "varnish"?'
    assert problem in caplog.text
    write(engine, conf, more=None, tea=endpoints(81))
    assert plane.updates[-1][0] is None, "endpoints still change"
    write(engine, conf, gateway=gateway("cafe", 8080))
    assert engine.planes == {CAFE: plane}
    assert plane.is_whole
    assert [key.name for key in plane.updates[-1][0].routes] == ["a"]
    assert engine.problems == []


@pytest.mark.parametrize("end", ["deleted", "of another controller"])
async def test_frozen_gateway_stops_when_it_is_deleted_or_not_ours(engine, conf, end):
    write(engine, conf, gateway=gateway("cafe", 8080))
    write(engine, conf, gateway=gateway("cafe", 8080).replace("varnish,", "other,"))
    assert CAFE in engine.planes
    if end == "deleted":
        write(engine, conf, gateway=None)
    else:
        meta = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: other}\n"
        write(engine, conf, foreign=f"{meta}spec: {{controllerName: example.com/other}}\n")
    assert engine.planes == {}
    await engine.close()


async def test_recreated_gateway_waits_for_its_former_plane(engine, conf, caplog):
    """Else two data planes are in one directory, and end each other's varnishd."""
    drained = asyncio.Event()
    write(engine, conf, gateway=gateway("cafe", 8080))
    first = engine.planes[CAFE]
    first.drain = drained.wait
    for text in (None, gateway("cafe", 8080), None, gateway("cafe", 8080)):
        write(engine, conf, gateway=text)
        await asyncio.sleep(0.01)
    third = engine.planes[CAFE]
    assert not first.closed
    assert not third.after.done()
    drained.set()
    await asyncio.wait_for(third.after, 5)
    assert first.closed
    await asyncio.sleep(0)
    assert not engine._closing
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_endpoints_reach_every_plane(engine, conf):
    slice_key = Key("EndpointSlice", "default", "tea")
    write(engine, conf, gateway=gateway("cafe", 8080), tea=endpoints(9000))
    assert engine.planes[CAFE].updates[0][1][slice_key].ports[0].port == 9000
    write(engine, conf, tea=endpoints(9001))
    delta, slices = engine.planes[CAFE].updates[1]
    assert delta is None
    assert slices[slice_key].ports[0].port == 9001
    write(engine, conf, other=gateway("other", 8081))
    assert engine.planes[OTHER].updates[0][1][slice_key].ports[0].port == 9001, "what was there before it"
    write(engine, conf, tea=None)
    assert engine.planes[CAFE].updates[-1][1] == {slice_key: None}
    write(engine, conf, third=gateway("third", 8082))
    assert engine.planes[CAFE._replace(name="third")].updates[0][1] == {}


async def test_statuses_are_logged_when_they_change(engine, conf, caplog):
    caplog.set_level(logging.INFO)
    write(engine, conf, gateway=gateway("cafe", 8080), route=route("a"))
    assert "HTTPRoute default/a: Accepted, ResolvedRefs" in caplog.messages
    caplog.clear()
    write(engine, conf, route=route("a") + "# a comment\n")
    write(engine, conf, route=route("a").replace("rules: [{}]", "rules: [{}, {}]"))
    assert caplog.messages == [], "another generation of the same verdict is no news"
    engine.planes[CAFE].report(CAFE, False, "port 8080 is in use", {})
    await asyncio.sleep(0)
    assert caplog.messages[-1].startswith("Gateway default/cafe: not Programmed (Pending): port 8080 is in use")
    engine.planes[CAFE].report(CAFE, True, "", {})
    await asyncio.sleep(0)
    assert caplog.messages[-1].startswith("Gateway default/cafe: Accepted, Programmed, ResolvedRefs")


async def test_listener_set_is_programmed_with_its_gateway(engine, conf, caplog):
    caplog.set_level(logging.INFO)
    allowing = gateway("cafe", 8080).replace("spec: {", "spec: {allowedListeners: {namespaces: {from: Same}}, ")
    write(engine, conf, gateway=allowing, sets=listener_set("more", "cafe"))
    for served, text in ((False, "not Programmed (ParentNotProgrammed): no"), (True, "Accepted, Programmed")):
        engine.planes[CAFE].report(CAFE, served, "" if served else "no", {})
        await asyncio.sleep(0)
        assert any(line.startswith(f"ListenerSet default/more: {text}") for line in caplog.messages)
    write(engine, conf, sets=listener_set("other", "cafe"))
    assert any(line.startswith("ListenerSet default/other: Accepted, Programmed") for line in caplog.messages)
    caplog.clear()
    engine.planes[CAFE].report(CAFE, False, "no", {})
    await asyncio.sleep(0)
    assert [line.partition(":")[0] for line in caplog.messages] == ["Gateway default/cafe", "ListenerSet default/other"]


async def test_many_accepted_objects_are_counted(engine, conf, caplog):
    caplog.set_level(logging.INFO)
    names = [f"r{number}" for number in range(MANY + 1)]
    write(engine, conf, gateway=gateway("cafe", 8080), routes="---\n".join(map(route, names)))
    assert f"{MANY + 1} objects of the kind HTTPRoute are accepted" in caplog.messages
    assert not any(message.startswith("HTTPRoute ") for message in caplog.messages)


async def test_invalid_file_changes_only_the_log(engine, conf, caplog):
    write(engine, conf, gateway=gateway("cafe", 8080))
    write(engine, conf, gateway="{")
    assert len(engine.planes[CAFE].updates) == 1
    assert caplog.messages[-1].startswith(f"{conf}/gateway.yaml:1: ")


async def test_changed_files_are_applied(engine, conf):
    serving = asyncio.create_task(engine.serve())
    async with asyncio.timeout(5):
        while not engine.planes:
            await asyncio.sleep(0.001)
        (conf / "route.yaml").write_text(route("a"))
        while len(engine.planes[CAFE].updates) < 2:
            await asyncio.sleep(0.001)
    serving.cancel()


async def test_bug_in_a_plane_stops_the_engine(engine):
    serving = asyncio.create_task(engine.serve())
    async with asyncio.timeout(5):
        while not engine.planes:
            await asyncio.sleep(0.001)
        engine.planes[CAFE].task.set_exception(ZeroDivisionError())
        with pytest.raises(ZeroDivisionError):
            await serving


async def test_missing_path_is_rejected(tmp_path):
    with pytest.raises(errors.BadSettings):
        Engine([str(tmp_path / "nowhere")], tmp_path)


def test_long_names_have_short_unique_directories():
    short, long, longer = (Key("Gateway", "n", "g" * count) for count in (40, 60, 61))
    names = [directory_name(key) for key in (short, long, longer)]
    assert names[0] == f"n.{short.name}"
    assert len(set(names)) == 3
    assert max(map(len, names)) == LONGEST_NAME


def regex_route(name: str, pattern: str) -> str:
    match = f"{{matches: [{{path: {{type: RegularExpression, value: {pattern}}}}}]}}"
    return route(name).replace("rules: [{}]", f"rules: [{match}]")


@pytest.fixture
def held(monkeypatch):
    found = HeldRegexes()
    monkeypatch.setattr(regexes, "compile_regex", found.compile_regex)
    yield found
    found.released.set()


def served(engine: Engine) -> list[str]:
    """Return the routes that the plane was told about, in order."""
    return [key.name for delta, _ in engine.planes[CAFE].updates if delta for key in delta.routes]


async def test_regexes_of_a_route_delay_no_other_change(engine, conf, held):
    write(engine, conf, gateway=gateway("cafe", 8080))
    write(engine, conf, slow=regex_route("slow", "/held-by-run"))
    await until_async(held.began.is_set)
    write(engine, conf, other=route("other"))
    assert served(engine) == ["other"]
    assert not held.released.is_set()
    held.released.set()
    await until_async(lambda: served(engine) == ["other", "slow"])


async def test_first_configuration_is_complete(engine, conf):
    (conf / "route.yaml").write_text(regex_route("web", "/compiled-at-the-start"))
    serving = asyncio.create_task(engine.serve())
    await until_async(lambda: engine.planes)
    assert [[key.name for key in delta.routes] for delta, _ in engine.planes[CAFE].updates] == [["web"]]
    serving.cancel()


async def test_first_configuration_has_cache_policies_with_globs(engine, conf, caplog):
    (conf / "policy.yaml").write_text(
        "apiVersion: gateway.varnish-software.com/v1alpha1\nkind: VarnishCachePolicy\nmetadata: {name: all}\n"
        "spec:\n"
        "  targetRef: {group: gateway.networking.k8s.io, kind: Gateway, name: cafe}\n"
        "  defaultTTL: 1m\n"
        "  cacheKey: {queryParameters: {exclude: ['compiled-at-the-start-*']}}\n"
    )
    caplog.set_level(logging.INFO)
    serving = asyncio.create_task(engine.serve())
    await until_async(lambda: engine.planes)
    [(delta, _)] = engine.planes[CAFE].updates
    [listener] = delta.listeners
    assert not listener.cache.off
    assert "VarnishCachePolicy default/all" in caplog.text
    assert "Pending" not in caplog.text
    serving.cancel()


async def test_start_compiles_no_regexes_of_a_route_that_attaches_nowhere(engine, conf, held):
    (conf / "route.yaml").write_text(regex_route("web", "/held-without-a-gateway").replace("cafe", "elsewhere"))
    serving = asyncio.create_task(engine.serve())
    await until_async(lambda: engine.planes)
    assert not held.began.is_set()
    serving.cancel()


async def test_files_that_change_while_the_first_ones_load_are_served_with_them(engine, conf, held):
    (conf / "slow.yaml").write_text(regex_route("slow", "/held-while-files-load"))
    (conf / "more.yaml").write_text(gateway("other", 8081))
    serving = asyncio.create_task(engine.serve())
    await until_async(held.began.is_set)
    write(engine, conf, a=route("a"), more=None)
    assert engine.planes == {}
    write(engine, conf, more=gateway("other", 8082))
    held.released.set()
    await until_async(lambda: engine.planes)
    [(delta, _)] = engine.planes[CAFE].updates
    assert sorted(key.name for key in delta.routes) == ["a", "slow"]
    [(delta, _)] = engine.planes[OTHER].updates
    assert [listener.port for listener in delta.listeners] == [8082]
    serving.cancel()


async def test_bug_in_translation_of_compiled_routes_stops_the_process(engine, conf, held, monkeypatch):
    serving = asyncio.create_task(engine.serve())
    await until_async(lambda: engine.planes)
    write(engine, conf, slow=regex_route("slow", "/held-by-a-bug"))
    await until_async(held.began.is_set)
    monkeypatch.setattr(engine.planes[CAFE], "update", None)
    held.released.set()
    with pytest.raises(TypeError):
        await serving


async def test_gateway_releases_a_former_port_that_another_one_needs(engine, conf):
    write(engine, conf, gateway=gateway("cafe", 8080), other=gateway("other", 8081))
    cafe, other = engine.planes[CAFE], engine.planes[CAFE._replace(name="other")]
    cafe.ports, cafe.former_ports, other.ports = frozenset({80}), frozenset({8080, 9090}), frozenset({8081, 8080})
    write(engine, conf, gateway=gateway("cafe", 80))
    assert (cafe.needed, other.needed) == ({8080}, frozenset())


async def test_wrong_invalidation_is_a_problem_with_file_and_line_until_it_is_corrected(engine, conf):
    text = (
        "---\napiVersion: gateway.varnish-software.com/v1alpha1\nkind: VarnishCacheInvalidation\n"
        "metadata: {name: one}\nspec: {gatewayRef: {name: %s}, everything: true}\n"
    )
    write(engine, conf, gateway=gateway("cafe", 8080), one=text % "caffe")
    await until_async(lambda: _problems(engine, 1), "it is reported")
    (problem,) = engine.problems
    start = f"{conf}/one.yaml:2: VarnishCacheInvalidation default/one: not Accepted (GatewayNotFound): "
    assert problem.startswith(f"{start}Gateway default/caffe is not in the files"), problem
    engine.planes[CAFE].may_hold_objects, engine.planes[CAFE].attached = True, ()
    asked = []

    async def invalidate(invalidation, client):
        asked.append((client, invalidation.targets[0].everything))
        return (4,)

    engine.planes[CAFE].invalidate = invalidate
    write(engine, conf, one=text % "cafe")
    await until_async(lambda: _problems(engine, 0), "it is carried out")
    assert asked == [("VarnishCacheInvalidation default/one", True)]
    write(engine, conf, one=None)
    assert engine.invalidations.statuses == {}


async def _problems(engine: Engine, number: int) -> bool:
    return len(engine.problems) == number
