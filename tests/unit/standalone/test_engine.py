"""Files to data planes, with planes that only record calls."""

import asyncio
import logging

import pytest

from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.standalone import engine as module
from varnish_gateway.standalone.engine import LONGEST_NAME, MANY, Engine, directory_name

CAFE, OTHER = Key("Gateway", "default", "cafe"), Key("Gateway", "default", "other")


class Recorder:
    """Stands for Plane."""

    def __init__(self, key, work_dir, report, *, after):
        self.after = after
        self.key, self.work_dir, self.report = key, work_dir, report
        self.updates: list[tuple[object, object]] = []
        self.closed = False
        self.task = asyncio.get_running_loop().create_future()

    def update(self, delta, slices, *, is_whole=False) -> None:
        self.updates.append((delta, dict(slices)))
        self.is_whole = is_whole

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
    return Engine([str(conf)], conf / "work")


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
    engine.planes[CAFE].report(CAFE, False, "port 8080 is in use")
    await asyncio.sleep(0)
    assert caplog.messages[-1].startswith("Gateway default/cafe: not Programmed (Pending): port 8080 is in use")
    engine.planes[CAFE].report(CAFE, True, "")
    await asyncio.sleep(0)
    assert caplog.messages[-1].startswith("Gateway default/cafe: Accepted, Programmed, ResolvedRefs")


async def test_listener_set_is_programmed_with_its_gateway(engine, conf, caplog):
    caplog.set_level(logging.INFO)
    allowing = gateway("cafe", 8080).replace("spec: {", "spec: {allowedListeners: {namespaces: {from: Same}}, ")
    write(engine, conf, gateway=allowing, sets=listener_set("more", "cafe"))
    for served, text in ((False, "not Programmed (ParentNotProgrammed): no"), (True, "Accepted, Programmed")):
        engine.planes[CAFE].report(CAFE, served, "" if served else "no")
        await asyncio.sleep(0)
        assert any(line.startswith(f"ListenerSet default/more: {text}") for line in caplog.messages)
    write(engine, conf, sets=listener_set("other", "cafe"))
    assert any(line.startswith("ListenerSet default/other: Accepted, Programmed") for line in caplog.messages)
    caplog.clear()
    engine.planes[CAFE].report(CAFE, False, "no")
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
