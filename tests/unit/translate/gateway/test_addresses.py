import pytest

from support.builders.objects import gateway
from varnish_gateway import ir
from varnish_gateway.api.varnish import ServiceParameters
from varnish_gateway.translate.gateway.addresses import unsupported, unusable
from varnish_gateway.translate.options import Options

ONE_MACHINE = Options()
CLUSTER = Options(addresses="load-balancer")


def asking(*values: str, type_: str = "IPAddress"):
    return gateway("gw", addresses=[{"type": type_, "value": value} if value else {"type": type_} for value in values])


def test_unsupported_address_type_is_a_problem():
    for options in (ONE_MACHINE, CLUSTER):
        assert unsupported(gateway("gw"), options) is None
        assert unsupported(asking("192.0.2.1"), options) is None
        assert unsupported(asking("x", type_="example.com/pool"), options).reason == "UnsupportedAddress"
    assert unsupported(asking("a.example.com", type_="Hostname"), ONE_MACHINE) is None
    assert unsupported(asking("a.example.com", type_="Hostname"), CLUSTER).reason == "UnsupportedAddress"


@pytest.mark.parametrize("values", [(), ("",)])
def test_any_address_can_be_had(values: tuple[str, ...]):
    for options in (ONE_MACHINE, CLUSTER):
        assert unusable(asking(*values), options, ir.Parameters()) is None


def test_address_requested_on_one_machine_is_not_usable():
    got = unusable(asking("192.0.2.1"), ONE_MACHINE, ir.Parameters())
    assert got.reason == "AddressNotUsable"
    assert "192.0.2.1" in got.message


@pytest.mark.parametrize("values", [("192.0.2.1",), ("2001:db8::1",), ("", "192.0.2.1")])
def test_a_load_balancer_is_asked_for_one_address(values: tuple[str, ...]):
    assert unusable(asking(*values), CLUSTER, ir.Parameters()) is None
    assert unusable(asking(*values), CLUSTER, None) is None


@pytest.mark.parametrize(
    ("values", "parameters", "complaint"),
    [
        (("192.0.2.1", "192.0.2.2"), ir.Parameters(), "remove the others"),
        (("192.0.2.300",), ir.Parameters(), "not an IP address"),
        (("192.0.2.1",), ir.Parameters(service=ServiceParameters(type="NodePort")), "of type NodePort"),
    ],
)
def test_address_that_no_load_balancer_can_have_is_rejected(
    values: tuple[str, ...], parameters: ir.Parameters, complaint: str
):
    got = unusable(asking(*values), CLUSTER, parameters)
    assert got.reason == "AddressNotUsable"
    assert complaint in got.message
