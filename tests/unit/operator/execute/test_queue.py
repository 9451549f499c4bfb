"""The queue: each job once, the most urgent first, and once more if it changed meanwhile."""

import asyncio

from varnish_gateway.operator.execute.queue import Queue


async def test_a_job_that_is_added_twice_is_handed_out_once():
    queue: Queue[str] = Queue()
    queue.add("a", 1)
    queue.add("a", 1)
    assert await queue.take() == "a"
    queue.done("a")
    assert queue.is_idle


async def test_the_most_urgent_job_goes_first_and_equals_in_order():
    queue: Queue[str] = Queue()
    for job, urgency in (("late", 3), ("first", 0), ("second", 0), ("mid", 1)):
        queue.add(job, urgency)
    assert [await queue.take() for _ in range(4)] == ["first", "second", "mid", "late"]


async def test_a_job_that_is_added_while_it_runs_runs_again_afterwards_and_never_twice_at_once():
    queue: Queue[str] = Queue()
    queue.add("a", 1)
    await queue.take()
    queue.add("a", 1)
    queue.add("a", 1)
    taking = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert not taking.done()
    queue.done("a")
    assert await taking == "a"
    queue.done("a")
    assert queue.is_idle


async def test_a_job_for_later_comes_later_but_at_once_if_it_is_added_again():
    queue: Queue[str] = Queue()
    queue.add("a", 1, delay=3600)
    assert len(queue) == 0
    queue.add("a", 1)
    assert await queue.take() == "a"
    queue.done("a")
    queue.add("b", 1, delay=0.001)
    assert await asyncio.wait_for(queue.take(), 10) == "b"


async def test_of_two_delays_the_shorter_counts():
    queue: Queue[str] = Queue()
    queue.add("a", 1, delay=3600)
    queue.add("a", 1, delay=0.001)
    queue.add("a", 1, delay=7200)
    assert await asyncio.wait_for(queue.take(), 10) == "a"


async def test_a_taker_that_is_cancelled_leaves_the_job_to_another():
    queue: Queue[str] = Queue()
    first, second = asyncio.create_task(queue.take()), asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.add("a", 1)  # wakes the first, which is cancelled before it runs
    first.cancel()
    assert await asyncio.wait_for(second, 10) == "a"


async def test_clearing_forgets_what_waits_and_what_is_for_later():
    queue: Queue[str] = Queue()
    queue.add("a", 1)
    queue.add("b", 1, delay=0.001)
    queue.clear()
    assert (len(queue), queue.later, queue.is_idle) == (0, 0, True)
    queue.add("c", 1)
    assert await queue.take() == "c"
