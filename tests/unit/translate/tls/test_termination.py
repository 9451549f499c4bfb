"""Listeners with TLS: what they serve it with, and that one without takes no other down."""

from support import certificates
from support.builders.objects import certificate, gateway, https, keyed, obj, route, secret_grant, service, view_of
from support.builders.recording import recording
from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.decoding import decode
from varnish_gateway.ir import wire
from varnish_gateway.translate import Translator
from varnish_gateway.translate.gateway import gateways
from varnish_gateway.translate.options import Options
from varnish_gateway.translate.route import http_route
from varnish_gateway.translate.tls.blocks import CERTIFICATE_BYTES

GW = Key("Gateway", "default", "gw")
ROOT = certificates.authority("root")
PLAIN = {"name": "http", "port": 80, "protocol": "HTTP"}


class World:
    """A translator, and what it last published about the Gateway."""

    def __init__(self, *objects: api.Object, **options) -> None:
        self.translator = Translator(assume_class=True, **options)
        self.tls = ir.Tls()
        self.put(*objects)

    def put(self, *objects: api.Object) -> ir.Delta:
        return self.take(keyed(*objects))

    def take(self, changes: dict) -> ir.Delta:
        delta = self.translator.update(changes)
        if GW in delta.statuses:
            self.status = delta.statuses[GW]
        if (gateway_delta := delta.gateways.get(GW)) is not None:
            self.tls = gateway_delta.tls if gateway_delta.tls is not None else self.tls
            self.listeners = gateway_delta.listeners if gateway_delta.listeners is not None else self.listeners
        return delta

    def listener(self, name: str = "https") -> dict[str, tuple[str, str]]:
        (found,) = (one for one in self.status.listeners if one.name == name)
        return {each.type: (each.status, each.reason) for each in found.conditions}

    def names(self, port: int = 443) -> list[tuple[str, ...]]:
        (found,) = (one for one in self.tls.ports if one.port == port)
        return [one.names for one in found.certificates]

    @property
    def served(self) -> list[str]:
        return [one.name for one in self.listeners]


def ca(name: str = "ca") -> api.Object:
    return decode(certificates.config_map("default", name, ROOT))


def validated(*refs: str, **validation) -> dict:
    named = [{"group": "", "kind": "ConfigMap", "name": ref} for ref in refs]
    return {"validation": {"caCertificateRefs": named} | validation}


SERVED = {
    "Accepted": ("True", "Accepted"),
    "Programmed": ("Unknown", "Pending"),
    "ResolvedRefs": ("True", "ResolvedRefs"),
    "Conflicted": ("False", "NoConflicts"),
}
UNCERTIFIED = SERVED | {"Programmed": ("False", "Invalid"), "ResolvedRefs": ("False", "InvalidCertificateRef")}


def test_a_listener_with_a_certificate():
    world = World(gateway("gw", https()), certificate())
    (port,) = world.tls.ports
    assert (port.port, port.clients) == (443, None)
    assert world.names() == [("*", "www.example.com")]
    assert set(world.tls.files) == {port.certificates[0].file}
    assert world.listeners == (wire.Listener(name="https", socket="https-443", port=443, scheme="https"),)
    assert world.listener() == SERVED


def test_a_listener_without_a_certificate_has_its_socket_and_is_not_served():
    changes = Translator(assume_class=True).update(keyed(gateway("gw", PLAIN, https()))).gateways[GW]
    assert [listener.socket for listener in changes.listeners] == ["http-80"]
    assert [listener.socket for listener in changes.placed] == ["http-80", "https-443"]


def test_gateway_without_tls_publishes_no_tls():
    delta = Translator(assume_class=True).update(keyed(gateway()))
    assert delta.gateways[GW].tls is None


def test_unchanged_tls_is_not_published_again():
    world = World(gateway("gw", https()), certificate())
    before = world.tls
    delta = world.put(gateway("gw", PLAIN, https()))
    assert delta.gateways[GW].listeners
    assert delta.gateways[GW].tls is None
    assert world.tls is before


def test_first_certificate_serves_clients_without_a_server_name():
    specific = https("a", "one", hostname="a.example.com")
    world = World(
        gateway("gw", specific, https("b", "two", hostname="*.example.com"), https("c", "three", "one")),
        *(certificate(name, host=name) for name in ("one", "two", "three")),
    )
    assert world.names() == [("*", "three"), ("*", "one", "a.example.com"), ("*.example.com",)]
    assert world.put(gateway("gw", specific, https("b", "two", hostname="*.example.com"))).gateways[GW].tls
    assert world.names() == [("a.example.com",), ("*.example.com",)]


def hosting(name: str, *hosts: str) -> api.Object:
    return decode(ROOT.issue(hosts[0], hosts=hosts).secret("default", name))


def test_certificates_of_one_listener_are_selected_by_their_hosts():
    world = World(
        gateway("gw", https("any", "a", "b"), https("wild", "c", hostname="*.example.com")),
        hosting("a", "a.org", "www.example.com", "*.example.com"),
        hosting("b", "b.org", "*.b.org"),
        hosting("c", "*.deep.example.com", "example.com", "a.org", "*.example.com"),
    )
    assert world.names() == [
        ("*", "a.org"),
        ("*", "b.org", "*.b.org"),
        ("*.example.com", "*.deep.example.com"),
    ]


def test_listener_on_another_port_conflicts_with_none():
    world = World(
        gateway("gw", https("any", "a"), https("other", "a", hostname="a.org", port=8443)), hosting("a", "a.org")
    )
    assert world.names() == [("*", "a.org")]


def test_listener_without_a_certificate_affects_no_other():
    world = World(
        gateway("gw", PLAIN, https("good", hostname="a.example.com"), https("bad", "gone", hostname="b.example.com")),
        certificate(),
        service(),
        route(),
    )
    assert world.served == ["http", "good"]
    assert world.listener("bad") == UNCERTIFIED
    assert world.listener("good") == SERVED
    assert world.names() == [("a.example.com",)]
    assert {one.attached_routes for one in world.status.listeners} == {1}, "attached all the same"
    delta = world.put(certificate("gone"))
    assert world.served == ["http", "good", "bad"]
    assert [by.listener for by in delta.gateways[GW].routes[Key("HTTPRoute", "default", "web")].attachments] == [
        "http",
        "good",
        "bad",
    ]
    world.take({Key("Secret", "default", "gone"): None})
    assert world.served == ["http", "good"]


def test_listener_with_one_valid_certificate_is_served():
    world = World(gateway("gw", https("https", "gone", "cert")), certificate())
    assert world.served == ["https"]
    assert world.listener() == SERVED | {"ResolvedRefs": ("False", "InvalidCertificateRef")}


def test_a_gateway_of_one_listener_without_a_certificate_is_accepted_and_not_programmed():
    """There is nothing wrong with the Gateway: the certificate may be on its way."""
    world = World(gateway("gw", https()))
    conditions = {each.type: (each.status, each.reason) for each in world.status.conditions}
    assert conditions == {
        "Accepted": ("True", "ListenersNotValid"),
        "Programmed": ("False", "Invalid"),
        "ResolvedRefs": ("False", "ListenersNotResolved"),
    }
    assert world.tls == ir.Tls()
    world.put(gateway("gw", https(tls={"mode": "Passthrough"})))
    assert (world.status.conditions[0].status, world.status.conditions[0].reason) == ("False", "ListenersNotValid")


def test_rotated_certificate_recomputes_no_route():
    second = obj("Gateway", "second", "default", spec={"gatewayClassName": "varnish", "listeners": [https("x", "no")]})
    layers, computed = recording(http_route.LAYER)
    objects = (gateway("gw", https()), second, certificate(), certificate("no"), service(), route())
    world = World(*objects, layers=layers)
    computed.clear()
    before = world.tls
    delta = world.put(certificate(host="rotated"))
    assert delta == ir.Delta(gateways={GW: ir.GatewayDelta(tls=world.tls)})
    assert world.tls != before
    assert computed == []


def test_certificate_follows_its_grant():
    ref = {"name": "cert", "namespace": "team"}
    world = World(gateway("gw", PLAIN, https("https", ref)), certificate(namespace="team"))
    assert world.listener() == UNCERTIFIED | {"ResolvedRefs": ("False", "RefNotPermitted")}
    world.put(secret_grant("team"))
    assert world.served == ["http", "https"]
    world.take({Key("ReferenceGrant", "team", "grant"): None})
    assert world.served == ["http"]
    assert world.tls == ir.Tls()


def test_rejected_listener_still_reports_its_certificate():
    world = World(gateway("gw", PLAIN, https("one", "gone", port=80)), certificate())
    found = world.listener("one")
    assert found["Conflicted"] == ("True", "ProtocolConflict")
    assert found["ResolvedRefs"] == ("False", "InvalidCertificateRef")


def test_route_kinds_that_are_strange_do_not_hide_a_certificate_that_is_missing():
    strange = https("https", "gone", allowedRoutes={"kinds": [{"kind": "GRPCRoute"}]})
    world = World(gateway("gw", strange))
    (message,) = (c.message for c in world.status.listeners[0].conditions if c.type == "ResolvedRefs")
    assert "does not exist; allowedRoutes.kinds" in message


# -- room ----------------------------------------------------------------------------------------


def large(name: str) -> api.Object:
    return decode(ROOT.issue(name, padding=CERTIFICATE_BYTES // 2).secret("default", name))


def test_listener_over_quota_affects_no_other_listener():
    listeners = [https(f"l{n}", f"c{n}", hostname=f"l{n}.example.com") for n in range(4)]
    secrets = [large(f"c{n}") for n in range(3)]
    world = World(gateway("gw", *listeners), *secrets, certificate("c3"), tls_limit=100_000)
    assert world.served == ["l0", "l1", "l3"]
    assert world.listener("l2") == UNCERTIFIED
    assert sum(map(len, world.tls.files.values())) < 100_000
    (message,) = (c.message for c in world.status.listeners[2].conditions if c.type == "Programmed")
    assert "0 of 1 certificates are within the quota" in message


def test_certificate_is_charged_to_the_quota_once():
    listeners = [https(f"l{n}", "c", hostname=f"l{n}.example.com") for n in range(9)]
    world = World(gateway("gw", *listeners), large("c"), tls_limit=100_000)
    assert len(world.served) == 9


def test_without_a_limit_everything_fits():
    listeners = [https(f"l{n}", f"c{n}", hostname=f"l{n}.example.com") for n in range(9)]
    assert len(World(gateway("gw", *listeners), *(large(f"c{n}") for n in range(9))).served) == 9


# -- clients -------------------------------------------------------------------------------------


def test_clients_are_validated_by_port():
    frontend = {"default": validated("ca"), "perPort": [{"port": 8443, "tls": {}}]}
    listeners = (PLAIN, https(), https("own", port=8443), https("other", port=9443))
    world = World(gateway("gw", *listeners, tls={"frontend": frontend}), certificate(), ca())
    first, own, other = world.tls.ports
    assert (first.clients, own.clients) == (other.clients, None)
    assert not first.clients.insecure
    assert world.tls.files[first.clients.file] == certificates.pem(ROOT.certificate)


def test_a_port_whose_validation_can_not_be_had_is_not_served_without_it():
    frontend = {"default": validated("gone"), "perPort": [{"port": 80, "tls": validated("ca")}]}
    world = World(gateway("gw", PLAIN, https(), tls={"frontend": frontend}), certificate(), ca())
    assert world.served == ["http"]
    assert world.listener("http") == SERVED
    assert world.listener() == SERVED | {
        "Accepted": ("False", "NoValidCACertificate"),
        "Programmed": ("False", "Invalid"),
        "ResolvedRefs": ("False", "InvalidCACertificateRef"),
    }
    assert world.tls == ir.Tls()
    world.put(ca("gone"))
    assert world.served == ["http", "https"]
    assert world.tls.ports[0].clients is not None
    world.take({Key("ConfigMap", "default", "gone"): None})
    assert world.served == ["http"]
    assert world.tls == ir.Tls()


def test_authorities_over_quota_are_not_left_out():
    frontend = {"frontend": {"default": validated("ca")}}
    big = decode(certificates.config_map("default", "ca", certificates.authority("big", padding=60_000)))
    world = World(gateway("gw", PLAIN, https(), tls=frontend), certificate(), big, tls_limit=50_000)
    assert world.served == ["http"]
    assert world.tls == ir.Tls()


def test_insecure_fallback_has_a_condition():
    insecure = {"frontend": {"default": validated("ca", mode="AllowInsecureFallback")}}
    world = World(gateway("gw", https(), tls=insecure), certificate(), ca())
    assert world.tls.ports[0].clients.insecure
    assert ("InsecureFrontendValidationMode", "True", "ConfigurationChanged") in {
        (each.type, each.status, each.reason) for each in world.status.conditions
    }
    world.put(gateway("gw", https(), tls={"frontend": {"default": validated("ca")}}))
    assert [each.type for each in world.status.conditions] == ["Accepted", "Programmed", "ResolvedRefs"]


def test_representation_shows_no_private_key():
    world = World(gateway("gw", https()), certificate())
    assert "PRIVATE" not in repr(world.tls)
    validated = gateways.validate(GW, Options(assume_class=True), view_of(gateway("gw", https()), certificate()))
    assert validated.material.certificates
    assert "PRIVATE" not in repr(validated)
