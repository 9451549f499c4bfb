"""A Gateway's data plane, with a DataPlane that only records calls."""

import asyncio
import re
from types import SimpleNamespace

import pytest

from support.waiting import until_async
from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.api.varnish import Http2Parameters, StorageParameters
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.change import Change, Outcome
from varnish_gateway.ir import GatewayDelta, Parameters, Tls, UserVcl, UserVclUnavailable, wire
from varnish_gateway.ir.arguments import PLAINTEXT_HTTP2
from varnish_gateway.standalone import plane as module
from varnish_gateway.standalone.plane import GATEWAY, Plane

KEY = Key("Gateway", "default", "cafe")
LISTENER = wire.Listener(name="http", socket="http-80", port=80)
ROUTE = wire.Route(namespace="default", name="a", attachments=(), rules=())
SLICE = Key("EndpointSlice", "default", "a")


class Recorder:
    """Stands for DataPlane; what happens to all of them is in ``log``."""

    log: list[object]
    start_fails: int
    outcome: Outcome

    def __init__(self, settings):
        self.settings = settings
        self.bus = events.Bus()
        self.served = SimpleNamespace(ready=True, reason="", problems=(), closed={})
        self.may_hold_objects = True

    async def start(self) -> None:
        type(self).log.append(("start", self.settings.extra_args, GATEWAY.get()))
        if type(self).start_fails:
            type(self).start_fails -= 1
            raise errors.ChildExited("port 80 is in use")

    async def apply(self, change: Change) -> Outcome:
        type(self).log.append(change)
        return type(self).outcome

    async def invalidate(self, invalidation, client) -> tuple[int, ...]:
        type(self).log.append((invalidation, client, GATEWAY.get()))
        return (7,)

    async def drain(self, _seconds: float) -> None:
        type(self).log.append("drain")

    async def stop(self, _seconds: float) -> None:
        type(self).log.append("stop")


@pytest.fixture(autouse=True)
def _recorder(monkeypatch):
    Recorder.log, Recorder.start_fails, Recorder.outcome = [], 0, Outcome()
    monkeypatch.setattr(module, "assemble", Recorder)
    monkeypatch.setattr(module, "FIRST_RETRY_SECONDS", 0.001)


@pytest.fixture
async def plane(tmp_path):
    reports: list[tuple[bool, str]] = []
    made = Plane(
        KEY,
        tmp_path,
        lambda _key, served, message, _closed: reports.append((served, message)),
        tokens=tmp_path / "tokens.json",
    )
    made.reports = reports
    yield made
    await made.close()


def first(**more: object) -> GatewayDelta:
    return GatewayDelta(
        **{
            "listeners": (LISTENER,),
            "placed": (LISTENER,),
            "user_vcl": None,
            "parameters": Parameters(),
            "routes": {KEY: ROUTE},
            **more,
        }
    )


def changes() -> list[Change]:
    return [entry for entry in Recorder.log if isinstance(entry, Change)]


async def test_start_applies_everything_and_later_only_changes(plane):
    plane.update(first(), {SLICE: None})
    await until_async(lambda: plane.reports == [(True, "")])
    assert Recorder.log[0] == ("start", (), "default/cafe")
    (whole,) = changes()
    assert list(whole.routing) == [0]
    assert whole.vcl.startswith("vcl 4.1;")
    assert [socket.name for socket in whole.sockets.plain] == ["ghost-reload", "http-80"]

    plane.update(GatewayDelta(routes={KEY: None}), {})
    await until_async(lambda: len(plane.reports) == 2)
    assert list(changes()[1].routing) == [0]
    plane.update(None, {SLICE: None})
    await until_async(lambda: len(plane.reports) == 3)
    assert (changes()[2].routing, changes()[2].slices) == ({}, {SLICE: None})


async def test_whole_state_replaces_routes_and_tls_that_it_lacks(plane):
    """A frozen Gateway returns like a new one; what was deleted meanwhile must go."""
    tls = Tls((wire.TlsPort(port=443, certificates=()),), {"a.pem": b"a"})
    stale = Key("HTTPRoute", "default", "stale")
    plane.update(first(routes={KEY: ROUTE, stale: ROUTE}, tls=tls), {})
    await until_async(lambda: len(plane.reports) == 1)
    plane.update(first(), {}, is_whole=True)
    await until_async(lambda: len(plane.reports) == 2)
    assert changes()[1].tls == Tls()
    assert changes()[1].routing != changes()[0].routing
    assert plane._desired.state.routes.keys() == {KEY}


async def test_sockets_and_tls_are_applied_only_when_they_change(plane):
    """Applying them waits for HAProxy."""
    tls = Tls((wire.TlsPort(port=443, certificates=()),), {"a.pem": b"a"})
    secure = wire.Listener(name="https", socket="https-443", port=443, scheme="https")
    deltas = [first(tls=Tls()), GatewayDelta(routes={KEY: None}), GatewayDelta(tls=tls), GatewayDelta(tls=tls)]
    deltas.append(GatewayDelta(placed=(LISTENER, secure)))
    for number, delta in enumerate(deltas, 1):
        plane.update(delta, {})
        await until_async(lambda: len(plane.reports) == number)  # noqa: B023
    assert [change.tls for change in changes()] == [Tls(), None, tls, None, None]
    assert [change.sockets is not None for change in changes()] == [True, False, False, False, True]
    plane.update(GatewayDelta(placed=()), {})
    await until_async(lambda: Recorder.log[-1] == "stop")
    plane.update(GatewayDelta(placed=(LISTENER,)), {})
    await until_async(lambda: len(changes()) == 6)
    assert (changes()[5].tls, changes()[5].sockets is not None) == (tls, True), "a new data plane gets everything"


async def test_stopped_plane_has_metrics_that_say_so(plane):
    lines = await plane.metrics()
    assert {"vgw_ready 0", "vgw_up_to_date 0", "vgw_worker_deaths_total 0"} <= set(lines)


async def test_counters_outlive_a_data_plane(plane, monkeypatch):
    async def lines(_data_plane, counters, _routes, _served):
        return [*counters.lines()]

    monkeypatch.setattr(module, "scrape", lines)
    plane.update(first(), {})
    await until_async(changes)
    plane._data_plane.bus.publish(events.ChildDied(reason="a signal", panic=None))
    assert "vgw_worker_deaths_total 1" in await plane.metrics()
    plane.update(GatewayDelta(placed=()), {})
    await until_async(lambda: Recorder.log[-1] == "stop")
    assert "vgw_worker_deaths_total 1" in await plane.metrics()


async def test_problems_are_reported(plane):
    Recorder.outcome = Outcome((errors.VclRejected("no such function"),))
    plane.update(first(user_vcl=UserVcl("x", "nonsense")), {})
    await until_async(lambda: plane.reports == [(False, "no such function")])


async def test_failed_start_is_retried_with_everything(plane):
    Recorder.start_fails = 2
    plane.update(first(), {})
    await until_async(lambda: plane.reports[-1:] == [(True, "")])
    assert plane.reports[:2] == [(False, "port 80 is in use; it is tried again")] * 2
    assert list(changes()[0].routing) == [0]


async def test_plane_waits_for_a_draining_plane_of_its_gateway(tmp_path):
    draining = asyncio.create_task(asyncio.Event().wait())
    plane = Plane(KEY, tmp_path, lambda *_: None, after=draining)
    plane.update(first(), {})
    await asyncio.sleep(0.01)
    assert Recorder.log == []
    draining.cancel()
    await until_async(changes)
    await plane.close()


async def test_changed_arguments_are_applied_to_the_running_data_plane(plane):
    plane.update(first(), {})
    await until_async(changes)
    plane.update(GatewayDelta(parameters=Parameters(varnishd_extra_args=("-p", "thread_pools=1"))), {})
    await until_async(lambda: len(changes()) == 2)
    assert changes()[1].extra_args == ("-p", "thread_pools=1")
    assert "stop" not in Recorder.log


async def test_http2_without_tls_becomes_arguments_of_varnishd(plane):
    parameters = Parameters(http2=Http2Parameters(plaintext=True), varnishd_extra_args=("-p", "thread_pools=1"))
    plane.update(first(parameters=parameters), {})
    await until_async(changes)
    assert changes()[0].extra_args == (*PLAINTEXT_HTTP2, "-p", "thread_pools=1")


async def test_storage_of_the_class_replaces_the_default_store(plane, tmp_path):
    in_file = StorageParameters(type="File", size="1Gi")
    plane.update(first(parameters=Parameters(storage=in_file, varnishd_extra_args=("-p", "thread_pools=1"))), {})
    await until_async(changes)
    assert changes()[0].extra_args == ("-s", f"file,{tmp_path}/store,{2**30}", "-p", "thread_pools=1")
    plane.update(GatewayDelta(parameters=Parameters(storage=StorageParameters(size="1Gi"))), {})
    await until_async(lambda: len(changes()) == 2)
    assert changes()[1].extra_args == ("-s", f"malloc,{2**30}")
    plane.update(GatewayDelta(parameters=Parameters(storage=StorageParameters(size="10%"))), {})
    await until_async(lambda: len(changes()) == 3)
    assert re.fullmatch(r"malloc,\d+m", changes()[2].extra_args[1])


async def test_gateway_without_listeners_runs_nothing(plane):
    plane.update(first(), {})
    await until_async(changes)
    plane.update(GatewayDelta(placed=()), {})
    await until_async(lambda: Recorder.log[-1] == "stop")
    plane.update(GatewayDelta(placed=(LISTENER,)), {})
    await until_async(lambda: len(changes()) == 2)


async def test_missing_user_vcl_is_awaited(plane):
    missing = UserVclUnavailable("ConfigMap a", "does not exist")
    plane.update(first(user_vcl=missing), {})
    await until_async(lambda: plane.reports == [(False, "the user VCL is not available")])
    assert Recorder.log == []
    plane.update(GatewayDelta(user_vcl=UserVcl("ConfigMap a", "# mine")), {})
    await until_async(changes)
    plane.update(GatewayDelta(user_vcl=missing), {})
    await until_async(lambda: len(changes()) == 2)
    assert "# mine" in changes()[1].vcl, "the last good one stays"


async def test_invalidation_reaches_the_data_plane_that_runs(plane, tmp_path):
    assert not plane.may_hold_objects
    with pytest.raises(ConnectionError, match="does not run"):
        await plane.invalidate("everything", "ci")
    plane.update(first(), {})
    await until_async(changes)
    assert plane.may_hold_objects
    plane._data_plane.may_hold_objects = False
    assert not plane.may_hold_objects
    assert await plane.invalidate("everything", "ci") == (7,)
    assert Recorder.log[-1] == ("everything", "ci", "default/cafe"), "its log has the name of the Gateway"
    assert plane._data_plane.settings.invalidation_tokens == tmp_path / "tokens.json"


async def test_recovery_without_a_change_is_reported(plane):
    plane.update(first(), {})
    await until_async(changes)
    data_plane = plane._data_plane
    data_plane.served.ready, data_plane.served.reason = False, "varnishd does not run"
    data_plane.bus.publish(events.Ready(ready=False, reason="varnishd does not run"))
    data_plane.served.ready, data_plane.served.reason = True, ""
    data_plane.bus.publish(events.Ready(ready=True))
    assert plane.reports[-2:] == [(False, "varnishd does not run"), (True, "")]


async def test_cancelled_close_raises_the_cancellation(plane):
    closing = asyncio.create_task(plane.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait({closing})
    assert closing.cancelled()


async def test_close_completes_an_interrupted_stop(plane, monkeypatch):
    plane.update(first(), {})
    await until_async(changes)
    stops = []

    async def stop(*_):
        stops.append("begun")
        await asyncio.sleep(0 if len(stops) > 1 else 60)
        stops.append("done")

    monkeypatch.setattr(plane._data_plane, "stop", stop)
    plane.update(GatewayDelta(placed=()), {})
    await until_async(lambda: stops)
    await plane.close()
    assert stops == ["begun", "begun", "done"]
