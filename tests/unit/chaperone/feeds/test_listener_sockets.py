from varnish_gateway.chaperone.feeds.listener_sockets import with_listeners
from varnish_gateway.dataplane.process.port_owners import PortOwners
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.ir import wire

START = parse_listen("http-80=127.0.0.1:0,http;https-443=:443,https")


def listener(scheme, port):
    return wire.Listener(name=f"{scheme}-{port}", socket=f"{scheme}-{port}", port=port, scheme=scheme)


def sockets(*listeners):
    return with_listeners(START, listeners)


def test_listeners_of_the_start_change_nothing():
    assert sockets(listener("http", 80), listener("https", 443)) == START
    assert sockets() == START, "varnishd keeps its sockets"
    assert sockets(wire.Listener(name="any", socket="*")) == START


def test_new_listeners_open_on_every_address():
    found = sockets(listener("http", 80), listener("http", 8081), listener("https", 8443), listener("http", 8081))
    assert [socket.argument for socket in (*found.plain[2:], *found.tls[1:])] == [
        "http-8081=:8081,http",
        "https-8443=:8443,https",
    ]


def test_a_tls_port_of_the_start_can_become_plain():
    found = sockets(listener("http", 443))
    assert [socket.name for socket in found.plain] == ["ghost-reload", "http-80", "http-443"]
    assert found.tls == ()


def test_varnishd_gives_no_port_up_because_its_restart_would_stop_the_whole_pod():
    start = parse_listen("http-80=:80,http")
    owners = PortOwners(start, opens_later=True)
    before = owners.varnishd
    owners.update(with_listeners(start, [listener("https", 80)]))
    assert owners.varnishd == before
    assert [port.socket.name for port in owners.terminator] == ["https-80"]
