from varnish_gateway.api import Key
from varnish_gateway.translate.gateway.listener_conflicts import gateway_hostname, gateway_port, machine_port

A, B = (Key("Gateway", "default", name) for name in "ab")


def test_places_of_different_gateways_ports_and_hostnames_differ():
    places = {
        machine_port(80),
        gateway_port(A, 80),
        gateway_port(B, 80),
        gateway_hostname(A, 80, "HTTP", "*"),
        gateway_hostname(A, 80, "HTTPS", "*"),
        gateway_hostname(A, 80, "HTTP", "a.example.com"),
    }
    assert len(places) == 6
