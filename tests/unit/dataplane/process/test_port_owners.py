from varnish_gateway.dataplane.process.port_owners import PortOwners
from varnish_gateway.dataplane.process.sockets import Socket, parse_listen

START = "http-80=:80,http;http-81=:81,http;https-443=:443,https"


def owners(*, opens_later=True):
    return PortOwners(parse_listen(START), opens_later=opens_later)


def names(sockets):
    return {socket.name for socket in sockets} - {"ghost-reload"}


def behind(ports):
    return {port.socket.name: port.behind for port in ports.terminator}


def test_varnishd_opens_what_is_there_at_its_start():
    ports = owners()
    assert names(ports.varnishd.plain) == {"http-80", "http-81"}
    assert ports.varnishd.later
    assert behind(ports) == {"https-443": "https-443.sock"}


def test_later_ports_are_the_terminators_and_varnishd_keeps_its_sockets():
    ports = owners()
    before = ports.varnishd
    ports.update(parse_listen(f"{START};http-8081=:8081,http;https-8443=:8443,https"))
    assert ports.varnishd == before
    assert behind(ports) == {
        "https-443": "https-443.sock",
        "http-8081": "http-later.sock",
        "https-8443": "https-later.sock",
    }
    assert [port.is_later for port in ports.terminator] == [False, True, True]
    ports.update(parse_listen(START))
    assert (ports.varnishd, behind(ports)) == (before, {"https-443": "https-443.sock"})


def test_varnishd_keeps_a_port_that_closes_until_another_gateway_needs_it():
    ports = owners()
    before = ports.varnishd
    desired = parse_listen("http-80=:80,http;https-443=:443,https")
    ports.update(desired)
    assert ports.varnishd == before
    assert ports.unused == (Socket("http-81", ":81"),)
    ports.update(desired, frozenset({80, 81}))
    assert names(ports.varnishd.plain) == {"http-80"}
    assert ports.unused == ()
    ports.update(parse_listen(START))
    assert names(ports.varnishd.plain) == {"http-80"}, "varnishd never gets a port back"
    assert behind(ports)["http-81"] == "http-later.sock"


def test_a_port_of_varnishd_costs_one_restart_however_often_its_protocol_changes():
    ports, seen = owners(), set()
    for number in range(6):
        scheme = "https" if number % 2 else "http"
        ports.update(parse_listen(f"http-80=:80,http;{scheme}-81=:81,{scheme};https-443=:443,https"))
        seen.add(ports.varnishd)
    assert len(seen) == 2
    assert behind(ports) == {"https-443": "https-443.sock", "https-81": "https-later.sock"}


def test_a_tls_port_changes_to_plain_and_back_without_varnishd():
    ports = owners()
    before = ports.varnishd
    ports.update(parse_listen("http-80=:80,http;http-81=:81,http;http-443=:443,http"))
    assert (ports.varnishd, behind(ports)) == (before, {"http-443": "http-later.sock"})
    ports.update(parse_listen(START))
    assert (ports.varnishd, behind(ports)) == (before, {"https-443": "https-443.sock"})


def test_what_ghost_does_not_know_by_its_port_is_varnishds():
    ports = owners()
    ports.update(parse_listen(f"{START};web=:8081,http;http-8082=:8082,PROXY;https-web=:8443,https"))
    assert names(ports.varnishd.plain) == {"http-80", "http-81", "web", "http-8082"}
    assert behind(ports) == {"https-443": "https-443.sock", "https-web": "https-8443.sock"}


def test_without_a_terminator_varnishd_opens_everything():
    ports = owners(opens_later=False)
    assert not ports.varnishd.later
    ports.update(parse_listen("http-80=:80,http;http-8081=:8081,http;https-8443=:8443,https"))
    assert names(ports.varnishd.plain) == {"http-80", "http-8081"}
    assert behind(ports) == {"https-8443": "https-8443.sock"}
    assert ports.unused == ()
