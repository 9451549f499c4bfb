"""The queue: each job once, the most urgent first, and once more if it was added while it ran."""

import asyncio

from varnish_gateway.operator.execute.queue import Queue


def opened() -> Queue[str]:
    queue: Queue[str] = Queue()
    queue.open()
    return queue


async def test_job_added_twice_is_handed_out_once():
    queue = opened()
    queue.add("a", 1)
    queue.add("a", 1)
    assert await queue.get() == "a"
    queue.done("a")
    assert queue.is_idle


async def test_most_urgent_job_goes_first_and_equally_urgent_ones_in_order():
    queue = opened()
    for job, urgency in (("late", 3), ("first", 0), ("second", 0), ("mid", 1)):
        queue.add(job, urgency)
    assert [await queue.get() for _ in range(4)] == ["first", "second", "mid", "late"]


async def test_job_added_while_it_runs_runs_again_afterwards():
    queue = opened()
    queue.add("a", 1)
    await queue.get()
    queue.add("a", 1)
    queue.add("a", 1)
    getting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not getting.done()
    queue.done("a")
    assert await getting == "a"
    queue.done("a")
    assert queue.is_idle


async def test_delayed_job_runs_at_once_if_it_is_added_without_delay():
    queue = opened()
    queue.add("a", 1, delay=3600)
    assert len(queue) == 0
    queue.add("a", 1)
    assert await queue.get() == "a"
    queue.done("a")
    queue.add("b", 1, delay=0.001)
    assert await asyncio.wait_for(queue.get(), 10) == "b"


async def test_shorter_of_two_delays_counts():
    queue = opened()
    queue.add("a", 1, delay=3600)
    queue.add("a", 1, delay=0.001)
    queue.add("a", 1, delay=7200)
    assert await asyncio.wait_for(queue.get(), 10) == "a"


async def test_cancelled_getter_leaves_the_job_to_the_next():
    queue = opened()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a", 1)  # wakes the first, which is cancelled before it runs
    first.cancel()
    assert await asyncio.wait_for(second, 10) == "a"


async def test_closing_drops_waiting_and_delayed_jobs():
    queue = opened()
    queue.add("a", 1)
    queue.add("b", 1, delay=0.001)
    queue.close()
    queue.add("dropped", 1)
    assert (len(queue), queue.delayed, queue.is_idle) == (0, 0, True)
    queue.open()
    queue.add("c", 1)
    assert await queue.get() == "c"
