import logging

from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.tls import events as tls


def test_every_subscriber_is_called_and_the_history_is_bounded():
    bus, heard = events.Bus(), []
    bus.subscribe(heard.append)
    for number in range(events.HISTORY + 5):
        bus.publish(events.Reloaded(id=str(number), seconds=0.1))
    assert len(heard) == events.HISTORY + 5
    assert next(bus.history).event.id == "5"


def test_the_log_has_a_sentence_and_the_fields(caplog):
    with caplog.at_level(logging.INFO):
        events.Bus().publish(events.VclLoaded(name="vgw-1", digest="abc", seconds=0.5))
    (record,) = caplog.records
    assert record.getMessage() == "VCL vgw-1 is in use"
    assert (record.event, record.event_name, record.digest) == ("VclLoaded", "vgw-1", "abc")


def test_every_event_has_a_sentence():
    examples = [
        events.VarnishdStarted(pid=1, sockets=("a",)),
        events.Unfenced(reason="r"),
        events.VarnishdExited(reason="r"),
        events.Fault(reason="r", retry_seconds=1),
        events.Restarting(reason="r"),
        events.ChildDied(reason="signal=9"),
        events.ChildBack(seconds=1),
        events.VclFailed(reason="r", serving=True),
        events.ReloadFailed(id="i", reason="r"),
        events.Restored(generation="3"),
        events.SourceLost(reason="r"),
        events.SourceBack(seconds=1),
        events.SourceProblems(problems=("p",)),
        events.Ready(ready=False, reason="r"),
        events.PortsChanged(closed={"http-8081": "r"}),
        events.Invalidated(client="ci", mode="hard", targets=1, objects=2),
        events.Draining(seconds=1),
        events.Stopped(),
        tls.HaproxyStarted(pid=1, ports=(443,)),
        tls.HaproxyExited(reason="r"),
        tls.HaproxyBack(seconds=1),
        tls.HaproxyReloaded(ports=(443,), seconds=1),
        tls.CertificatesChanged(replaced=1, added=1, removed=1, seconds=1),
        tls.TlsFailed(reasons=("r",)),
        tls.PortsUnserved(ports=(443,)),
        tls.CertificateExpired(names="a", port=443),
    ]
    assert {type(event) for event in examples} | {events.VclLoaded, events.Reloaded} == set(
        events.Event.__subclasses__()
    )
    assert all(event.sentence for event in examples)
