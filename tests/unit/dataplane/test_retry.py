import asyncio

from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.retry import FaultRetry


def delays(bus):
    return [record.event.retry_seconds for record in bus.history if isinstance(record.event, events.Fault)]


async def test_delays_double_up_to_a_limit_and_reset_starts_over():
    bus = events.Bus()
    again = FaultRetry(bus, lambda: None)
    for _ in range(8):
        again.later(OSError("no"))
    again.reset()
    again.later(OSError("no"))
    again.cancel()
    assert delays(bus) == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 0.1]


async def test_several_faults_wake_once():
    wakes = []
    woken = asyncio.Event()
    again = FaultRetry(events.Bus(), lambda: (wakes.append(1), woken.set()), first=0.001)
    again.later(OSError("one"))
    again.later(OSError("two"))
    async with asyncio.timeout(5):
        await woken.wait()
    assert wakes == [1]


async def test_repeated_fault_is_logged_once_and_counted_each_time(caplog):
    bus = events.Bus()
    again = FaultRetry(bus, lambda: None)
    for reason in ("taken", "taken", "killed", "killed"):
        again.later(OSError(reason))
    again.reset()
    again.later(OSError("killed"))
    again.cancel()
    assert [record.getMessage().split(";")[0] for record in caplog.records] == ["taken", "killed", "killed"]
    assert len(delays(bus)) == 5
