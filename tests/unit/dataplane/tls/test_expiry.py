import time

from support.varnish.tls import make_pair, pair, tls
from varnish_gateway.dataplane.process.port_owners import PortOwners
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.tls import metrics
from varnish_gateway.dataplane.tls.expiry import Expiry
from varnish_gateway.dataplane.tls.plan import TlsPlan, TlsPlanner
from varnish_gateway.emit.haproxy import Slot

DAY = 86400


def expiry_of(*certificates):
    planner = TlsPlanner(lambda _: None, lambda socket: (socket.address,))
    ports = PortOwners(parse_listen("https-443=:443,https"), opens_later=True).terminator
    plan, _ = planner.plan(tls(443, *certificates), ports, TlsPlan())
    expiry = Expiry()
    expiry.update(plan)
    return expiry


def test_expired_certificate_is_reported_once():
    now = time.time()
    expiry = expiry_of((pair("tea"), ["tea"]), (make_pair("old", days=-1), ["old", "older"]))
    assert [one.names for one in expiry.dated] == ["tea", "old, older"]
    assert [one.names for one in expiry.newly_expired(now)] == ["old, older"]
    assert expiry.newly_expired(now) == []
    assert abs(expiry.next(now) - now - 30 * DAY) < DAY
    assert [one.names for one in expiry.newly_expired(now + 31 * DAY)] == ["tea"]
    assert expiry.next(now + 31 * DAY) is None


def test_the_default_counts_where_it_has_no_other_name():
    assert [one.names for one in expiry_of((pair("tea"), ["*"])).dated] == ["*"]


def test_metrics_name_port_and_names():
    rows = [{"pxname": "https-443", "scur": "2", "stot": "5", "req_tot": "9", "ereq": ""}]
    lines = [*metrics.lines(rows, expiry_of((pair("tea"), ["tea"])).dated)]
    assert 'vgw_tls_connections{socket="https-443"} 2.0' in lines
    assert 'vgw_tls_requests_total{socket="https-443"} 9.0' in lines
    assert any(line.startswith('vgw_certificate_expiry_timestamp_seconds{port="443",names="tea"} ') for line in lines)
    assert [*metrics.lines([], ())] == []


def test_unreadable_certificate_has_no_expiry():
    """OpenSSL takes more than the library that reads dates."""
    slot = Slot("443.default.pem", ("*",))
    expiry = Expiry()
    expiry.update(TlsPlan(lists={443: (slot,)}, files={slot.name: b"-----BEGIN CERTIFICATE-----\n"}))
    assert expiry.dated == ()
    assert expiry.next(0) is None
