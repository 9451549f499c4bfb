"""Passes of a data plane with fakes for varnishd and ghost: whatever fails, the last good configuration serves."""

import asyncio

import pytest

from support.varnish.fake_varnish import apply, events_of, routes
from varnish_gateway import errors
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.quarantine import QuarantineDelays
from varnish_gateway.dataplane.varnish.cli import CliError, CliStatus

SOON = QuarantineDelays(0.02, 600)
no_retry = pytest.mark.parametrize("retry_seconds", [3600.0], ids=["no-retry"])
"""For a test that looks at what a fault left: on a busy machine the next attempt could come first."""


async def until_it_serves(plane, vcl: str, routing: str) -> None:
    async with asyncio.timeout(5):
        while not (plane.supervisor.child_running and plane.supervisor.serves == (vcl, routing)):
            await asyncio.sleep(0.01)


async def until_reload_failed(plane) -> None:
    async with asyncio.timeout(5):
        while not events_of(plane, events.ReloadFailed):
            await asyncio.sleep(0.01)


def no_memory() -> errors.ChildExited:
    return errors.ChildExited("no memory")


async def test_stopped_worker_is_started_with_a_change_that_arrived_meanwhile(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.lose_worker()
    plane.supervisor.faults = [no_memory(), no_memory()]
    assert not (await apply(plane, routing=routes("b"))).serves
    await until_it_serves(plane, "one", "b")


async def test_failed_first_start_is_retried_with_the_newest_configuration(plane):
    plane.supervisor.faults = [no_memory()]
    assert not (await apply(plane, vcl="one", routing=routes("a"))).serves
    assert (await apply(plane, routing=routes("b"))).serves
    assert plane.supervisor.serves == ("one", "b")


@no_retry
async def test_configuration_without_a_worker_is_not_last_good(plane):
    plane.supervisor.faults = [no_memory()]
    await apply(plane, vcl="one", routing=routes("a"))
    assert plane.in_force is None
    assert plane.served.reason == "varnishd's worker does not run"


@no_retry
async def test_worker_that_started_before_the_last_write_reloads(plane):
    plane.supervisor.starts_by_itself = True
    plane.supervisor.faults = [ConnectionError("varnishd's worker does not answer")]
    assert not (await apply(plane, vcl="one", routing=routes("a"))).serves
    assert (await apply(plane, routing=routes("b"))).serves
    plane.supervisor.lose_worker()
    assert (await apply(plane)).serves
    assert plane.supervisor.reloads == ["b"]


async def test_vcl_with_which_no_worker_starts_does_not_block_the_next(plane):
    assert not (await apply(plane, vcl="unsound", routing=routes("a"))).serves
    assert (await apply(plane, vcl="two")).serves
    assert plane.supervisor.serves == ("two", "a")


async def test_configuration_with_which_no_worker_starts_yields_to_the_last_good_one(plane, desired):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.lose_worker()
    plane.supervisor.faults = [no_memory()]
    assert not (await apply(plane, vcl="unsound", routing=routes("unsound"))).serves
    assert plane.in_force.vcl == "one"
    desired.update(Change(vcl="nonsense"))
    await until_it_serves(plane, "one", "a")
    outcome = await apply(plane)
    assert [type(problem) for problem in outcome.problems] == [errors.ReloadRejected, errors.VclRejected]


@pytest.mark.parametrize("status", [CliStatus.COMMUNICATION, CliStatus.PARAMETER])
async def test_last_good_vcl_is_retried_until_varnishd_accepts_it(plane, status):
    await apply(plane, vcl="one", routing=routes("a"))
    await apply(plane, vcl="nonsense")
    plane.supervisor.lose_varnishd()
    plane.supervisor.load_faults = [CliError("vcl.load", status, "no space") for _ in range(3)]
    outcome = await apply(plane, routing=routes("b"))
    assert not outcome.serves
    assert not plane.served.ready
    await until_it_serves(plane, "one", "b")
    assert [type(problem) for problem in (await apply(plane)).problems] == [errors.VclRejected]


async def test_last_good_vcl_is_compiled_again_without_a_change(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.lose_varnishd()
    plane.supervisor.load_faults = [CliError("vcl.load", CliStatus.PARAMETER, "no space") for _ in range(3)]
    assert not (await apply(plane)).serves
    await until_it_serves(plane, "one", "a")


async def test_dead_worker_does_not_recompile_a_quarantined_vcl(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    await apply(plane, vcl="nonsense")
    plane.supervisor.lose_worker()
    await apply(plane)
    assert plane.supervisor.serves == ("one", "a")
    assert plane.supervisor.loads == 2


async def test_corrected_vcl_serves_though_varnishd_rejects_the_last_good_one(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.lose_varnishd()
    plane.supervisor.rejected = "one"
    assert (await apply(plane, vcl="two")).serves
    assert plane.supervisor.serves == ("two", "a")


async def test_configuration_that_kills_two_workers_is_quarantined(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.deadly = "b"
    await apply(plane, routing=routes("b"))
    await until_reload_failed(plane)
    assert plane.supervisor.serves == ("one", "a")
    assert plane.served.ready
    assert not plane.served.up_to_date
    await apply(plane)
    assert plane.supervisor.reloads == ["b", "b"]
    assert (await apply(plane, routing=routes("c"))).serves


async def test_lost_reload_answer_of_a_live_worker_is_not_a_rejection(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.deadly = "b"
    plane.supervisor.lose_worker, lose_worker = lambda: None, plane.supervisor.lose_worker
    for _ in range(3):
        assert not (await apply(plane, routing=routes("b"))).serves
    plane.supervisor.lose_worker, plane.supervisor.deadly = lose_worker, ""
    assert (await apply(plane)).serves


async def test_plane_is_not_up_to_date_while_a_change_is_pending(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    assert plane.served.up_to_date
    plane.supervisor.compiling.clear()
    changing = asyncio.create_task(apply(plane, vcl="two"))
    await asyncio.sleep(0.05)
    assert not plane.served.up_to_date
    later = asyncio.create_task(apply(plane, vcl="three"))
    plane.supervisor.compiling.set()
    assert [outcome.serves for outcome in await asyncio.gather(changing, later)] == [True, True]
    assert plane.served.up_to_date
    assert plane.supervisor.serves == ("three", "a")


async def test_stop_during_a_pass_cancels_waiting_applies(plane):
    plane.supervisor.compiling.clear()
    changing = asyncio.create_task(apply(plane, vcl="one", routing=routes("a")))
    await asyncio.sleep(0.01)
    await plane.stop_passes()
    with pytest.raises(asyncio.CancelledError):
        await changing


@pytest.mark.parametrize("together", [True, False])
async def test_rejected_configuration_is_retried_with_another_vcl(plane, desired, together):
    await apply(plane, vcl="deaf", routing=routes("a"))
    change = {"routing": routes("b")}
    if not together:
        assert not (await apply(plane, **change)).serves
        change = {}
    assert (await apply(plane, vcl="two", **change)).serves
    assert plane.supervisor.serves == ("two", "b")
    assert plane.in_force.bundle.id == desired.bundle.id


@pytest.mark.parametrize("delays", [SOON])
@pytest.mark.parametrize("before", [{}, {"vcl": "one", "routing": routes("a")}])
async def test_rejected_vcl_is_retried_after_its_quarantine(plane, before):
    if before:
        await apply(plane, **before)
    plane.supervisor.rejected = "two"  # for the moment
    assert not (await apply(plane, vcl="two", routing=routes("a"))).serves
    plane.supervisor.rejected = "nonsense"
    await until_it_serves(plane, "two", "a")
    assert (await apply(plane)).serves


@pytest.mark.parametrize("delays", [SOON])
async def test_rejected_routes_are_retried_after_their_quarantine(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.unsound = "b"
    assert not (await apply(plane, routing=routes("b"))).serves
    plane.supervisor.unsound = "unsound"
    await until_it_serves(plane, "one", "b")


@pytest.mark.parametrize("delays", [SOON])
async def test_deadly_routes_are_retried_after_their_quarantine(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.deadly = "b"
    await apply(plane, routing=routes("b"))
    await until_reload_failed(plane)
    plane.supervisor.deadly = ""
    await until_it_serves(plane, "one", "b")


@pytest.mark.parametrize("delays", [SOON])
async def test_repeated_rejection_is_published_once(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    before = len(events_of(plane, events.Event))
    assert not (await apply(plane, vcl="nonsense", routing=routes("unsound"))).serves
    served = plane.served
    for _ in range(4):
        plane.supervisor.loaded.clear()
        await asyncio.wait_for(plane.supervisor.loaded.wait(), 5)
        assert plane.served == served
    assert [type(event) for event in events_of(plane, events.Event)[before:]] == [
        events.ReloadFailed,
        events.VclFailed,
        events.Ready,
    ]


async def test_varnishd_gets_its_vcl_though_a_fault_followed_its_launch(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.lose_varnishd()
    plane.supervisor.ensure_faults = [BlockingIOError("no more processes")]
    await apply(plane)
    await until_it_serves(plane, "one", "a")
    assert len(plane.supervisor.vcls) == 1


async def test_return_to_the_last_good_routes_after_a_lost_answer_reloads(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.deadly = "b"
    plane.supervisor.lose_worker = lambda: None
    assert not (await apply(plane, routing=routes("b"))).serves
    assert (await apply(plane, routing=routes("a"))).serves
    assert plane.supervisor.reloads[-1] == "a"


async def test_rejection_after_a_lost_answer_reloads_the_last_good_routes(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.deadly = "b"
    plane.supervisor.lose_worker = lambda: None
    assert not (await apply(plane, routing=routes("b"))).serves
    await apply(plane, routing=routes("unsound"))
    assert plane.supervisor.reloads[-2:] == ["unsound", "a"]


async def test_configuration_that_works_after_a_retry_is_saved(plane):
    saved = []
    plane.on_in_force(saved.append)
    await apply(plane, vcl="one", routing=routes("a"))
    assert saved[-1].vcl == "one"
    plane.supervisor.lose_worker()
    plane.supervisor.faults = [no_memory(), no_memory()]
    assert not (await apply(plane, vcl="two", routing=routes("b"))).serves
    await until_it_serves(plane, "two", "b")
    async with asyncio.timeout(5):
        while saved[-1].vcl != "two":
            await asyncio.sleep(0.01)
    assert saved[-1] == plane.in_force
