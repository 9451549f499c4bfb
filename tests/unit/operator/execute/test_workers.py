"""Workers: an error of one job doesn't affect the others."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace

from support.waiting import until_async
from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.operator.execute.queue import Queue
from varnish_gateway.operator.execute.workers import Workers
from varnish_gateway.operator.plan.jobs import Job, Jobs
from varnish_gateway.operator.plan.results import JobResult

BAD, GOOD = (Job("object", Key("Service", "shop", name)) for name in ("bad", "good"))


Run = Callable[[Job], Awaitable[None]]


class StubExecutor:
    """Runs jobs by a function of the test."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def begin(self) -> None:
        """Need no preparation."""

    async def run(self, job: Job, _: JobResult) -> None:
        await self._run(job)


class StubReconciler:
    """Has no desired state; an operator that starts to lead has the given jobs."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = jobs
        self.faults: dict = {}

    def resync(self) -> Jobs:
        return Jobs(dict.fromkeys(self._jobs, 0.0))

    def gateway_of(self, _: Job) -> None:
        return None

    def on_result(self, *_: object) -> Jobs:
        return Jobs()


def workers_of(queue: Queue[Job], run: Run, *jobs: Job) -> Workers:
    return Workers(queue, StubReconciler(jobs), StubExecutor(run), SimpleNamespace())


@asynccontextmanager
async def working(queue: Queue[Job], run: Run, *jobs: Job) -> AsyncIterator[Workers]:
    workers = workers_of(queue, run, *jobs)
    task = asyncio.create_task(workers.run())
    await asyncio.sleep(0)
    try:
        yield workers
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_bug_in_one_job_stops_no_other(caplog):
    queue: Queue[Job] = Queue()
    done = []

    async def run(job: Job) -> None:
        if job == BAD:
            raise RuntimeError("a bug of ours")
        done.append(job)

    async with working(queue, run, BAD, GOOD) as workers:
        await until_async(lambda: queue.is_idle, "every job ran")
        assert done == [GOOD]
        assert workers.failures == {"RuntimeError": 1}
        assert queue.delayed == 1, "it is retried"
    assert "a bug of ours" in caplog.text
    assert "Traceback" in caplog.text


async def test_status_of_an_object_that_is_not_found_is_retried():
    """An API server that starts does not know every kind yet."""
    queue: Queue[Job] = Queue()
    status = Job("status", Key("HTTPRoute", "shop", "tea"))
    answers = [errors.NotFound("not yet"), errors.NotFound("not yet"), None]

    async def run(_: Job) -> None:
        if (answer := answers.pop(0)) is not None:
            raise answer

    async with working(queue, run, status) as workers:
        await until_async(lambda: not answers, "it is retried")
        assert workers.failures == {"NotFound": 2}


async def test_unresponsive_pods_delay_no_write():
    queue: Queue[Job] = Queue()
    answer = asyncio.Event()
    written = []

    async def run(job: Job) -> None:
        if job.action == "probe":
            await answer.wait()
        else:
            written.append(job)

    probes = [Job("probe", Key("Gateway", "shop", f"gw{number}")) for number in range(40)]
    status = Job("status", Key("HTTPRoute", "shop", "tea"))
    async with working(queue, run, *probes, status):
        await until_async(lambda: written == [status], "the status is written")
        assert not queue.is_idle, "probes are running"
        answer.set()
        await until_async(lambda: queue.is_idle, "the probes end")


async def test_probe_cancelled_before_it_starts_is_finished():
    """Otherwise it would never run again when this operator leads again."""
    queue: Queue[Job] = Queue()
    probe = Job("probe", Key("Gateway", "shop", "gw"))

    async def never(_: Job) -> None:
        raise AssertionError

    task = asyncio.create_task(workers_of(queue, never).run())
    await asyncio.sleep(0.01)
    queue.add(probe, probe.urgency)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert queue.is_idle
