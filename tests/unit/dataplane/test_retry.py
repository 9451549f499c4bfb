import asyncio

from varnish_gateway.dataplane import events, retry
from varnish_gateway.dataplane.retry import Retry


def told(bus):
    return [record.event.retry_seconds for record in bus.history if isinstance(record.event, events.Fault)]


async def test_delays_double_up_to_a_limit_and_begin_anew():
    bus = events.Bus()
    again = Retry(bus, lambda: None)
    for _ in range(8):
        again.later(OSError("no"))
    again.begin_anew()
    again.later(OSError("no"))
    again.cancel()
    assert told(bus) == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 0.1]


async def test_many_faults_wake_once(monkeypatch):
    monkeypatch.setattr(retry, "FIRST_SECONDS", 0.001)
    wakes = []
    woken = asyncio.Event()
    again = Retry(events.Bus(), lambda: (wakes.append(1), woken.set()))
    again.later(OSError("one"))
    again.later(OSError("two"))
    async with asyncio.timeout(5):
        await woken.wait()
    assert wakes == [1]
