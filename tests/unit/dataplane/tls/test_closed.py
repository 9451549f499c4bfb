from varnish_gateway.dataplane.process.port_owners import PortOwners
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.tls.closed import closed_ports, deferred_ports
from varnish_gateway.dataplane.tls.plan import TlsPlan
from varnish_gateway.emit.haproxy import Bind, Clients

OWNERS = PortOwners(parse_listen("https-443=:443,https"), opens_later=True)
OWNERS.update(parse_listen("https-443=:443,https;http-8081=:8081,http;http-8082=:8082,http"))
PORTS = OWNERS.terminator


def plan(*ports, is_tls=False):
    return TlsPlan(tuple(Bind(port, (), "", is_tls=is_tls) for port in ports))


def test_open_ports_are_not_closed():
    assert closed_ports(PORTS, plan(8081, 8082), plan(8081, 8082), {}, 0) == {}


def test_ports_that_wait_say_since_when_they_may_open():
    closed = closed_ports(PORTS, plan(8081, 8082), plan(8081), {}, 60)
    assert [*closed] == ["http-8082"]
    assert closed["http-8082"].startswith("it opens at 2")


def test_a_port_that_is_open_in_the_other_protocol_is_closed():
    assert [*closed_ports(PORTS, plan(8081), plan(8081, is_tls=True), {}, 60)] == ["http-8081"]


def test_ports_of_other_processes_have_their_reason_and_those_of_the_start_are_left_to_problems():
    taken = {"http-8081": "in use by nginx", "https-443": "in use by nginx"}
    assert closed_ports(PORTS, plan(8082), plan(8082), taken, 0) == {"http-8081": "in use by nginx"}


def test_open_ports_whose_authorities_wait_are_deferred():
    def validating(name):
        return TlsPlan((Bind(443, (), "", Clients(name, False)),), {443: ()}, {name: b""})

    deferred = deferred_ports(PORTS, validating("new.ca.pem"), validating("old.ca.pem"), 60)
    assert [*deferred] == ["https-443"]
    assert deferred["https-443"].startswith("its newest certificates and authorities serve at 2")
    assert deferred_ports(PORTS, validating("new.ca.pem"), validating("new.ca.pem"), 60) == {}
    assert deferred_ports(PORTS, validating("new.ca.pem"), validating("old.ca.pem"), 0) == {}
