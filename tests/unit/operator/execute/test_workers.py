"""Those who do the jobs: what one of them meets is no affair of the others."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from support.waiting import until_async
from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.operator.execute.queue import Queue
from varnish_gateway.operator.execute.workers import Workers
from varnish_gateway.operator.plan.jobs import Job

BAD, GOOD = (Job("object", Key("Service", "shop", name)) for name in ("bad", "good"))


class Reconciling:
    """What workers need of a Reconciler; ``do`` is the test's."""

    def __init__(self, do: Callable[[Job], Awaitable[None]]) -> None:
        self.do = do
        self.faults: dict = {}

    def gateway_of(self, _: Job) -> None:
        return None


@asynccontextmanager
async def working(queue: Queue[Job], do: Callable[[Job], Awaitable[None]]) -> AsyncIterator[Workers]:
    workers = Workers(queue, Reconciling(do), lambda *_: None)
    task = asyncio.create_task(workers.run())
    try:
        yield workers
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_job_that_meets_a_bug_ends_no_other(caplog):
    queue: Queue[Job] = Queue()
    done = []

    async def do(job: Job) -> None:
        if job == BAD:
            raise RuntimeError("a bug of ours")
        done.append(job)

    queue.add(BAD, 0)
    queue.add(GOOD, 1)
    async with working(queue, do) as workers:
        await until_async(lambda: queue.is_idle, "everything was done")
        assert done == [GOOD]
        assert workers.failures == {"RuntimeError": 1}
        assert queue.later == 1, "it is tried again"
    assert "a bug of ours" in caplog.text
    assert "Traceback" in caplog.text


async def test_a_status_that_has_no_object_for_a_moment_is_written_in_the_end():
    """An API server that starts does not know every kind yet."""
    queue: Queue[Job] = Queue()
    status = Job("status", Key("HTTPRoute", "shop", "tea"))
    answers = [errors.NotFound("not yet"), errors.NotFound("not yet"), None]

    async def do(_: Job) -> None:
        if (answer := answers.pop(0)) is not None:
            raise answer

    queue.add(status, status.urgency)
    async with working(queue, do) as workers:
        await until_async(lambda: not answers, "it is tried again")
        assert workers.failures == {"NotFound": 2}


async def test_pods_that_do_not_answer_hold_up_nothing_that_is_written():
    queue: Queue[Job] = Queue()
    answer = asyncio.Event()
    written = []

    async def do(job: Job) -> None:
        if job.what == "probe":
            await answer.wait()
        else:
            written.append(job)

    probes = [Job("probe", Key("Gateway", "shop", f"gw{number}")) for number in range(40)]
    status = Job("status", Key("HTTPRoute", "shop", "tea"))
    for job in (*probes, status):
        queue.add(job, job.urgency)
    async with working(queue, do):
        await until_async(lambda: written == [status], "the status is written")
        assert not queue.is_idle, "pods are being asked"
        answer.set()
        await until_async(lambda: queue.is_idle, "they answered")


async def test_a_probe_that_is_broken_off_before_it_begins_is_over():
    """Else it would never be done again when this operator leads again."""
    queue: Queue[Job] = Queue()
    probe = Job("probe", Key("Gateway", "shop", "gw"))
    task = asyncio.create_task(Workers(queue, Reconciling(None), lambda *_: None).run())
    await asyncio.sleep(0.01)
    queue.add(probe, probe.urgency)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert queue.is_idle
