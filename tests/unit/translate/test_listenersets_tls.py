"""Certificates of ListenerSets: resolved for the ListenerSet itself, served with those of the Gateway."""

from support.builders.objects import certificate, gateway, https, keyed, listener_set, obj, route, secret_grant, service
from support.builders.recording import recording
from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.translate import Translator
from varnish_gateway.translate.conditions import KEYS_COPIED
from varnish_gateway.translate.route import http_route

GW = Key("Gateway", "default", "gw")
OPEN = {"allowedListeners": {"namespaces": {"from": "All"}}}
A, B, C = (f"{name}.example.com" for name in "abc")
ONLY = ("False", "ListenersNotValid")


def secured(name: str, host: str, *refs: str | dict, namespace: str = "team", **more) -> api.ListenerSet:
    return listener_set(name, https("https", *refs, hostname=host), namespace=namespace, **more)


def delta_of(*objects: api.Object, **options) -> ir.Delta:
    return Translator(assume_class=True, **options).update(keyed(*objects))


def conditions_of(delta: ir.Delta, name: str, namespace: str = "team") -> tuple[dict, dict]:
    """Return the conditions of a ListenerSet and of its listener."""
    status = delta.statuses[Key("ListenerSet", namespace, name)]
    of_listener = status.listeners[0].conditions if status.listeners else ()
    both = ({each.type: (each.status, each.reason) for each in part} for part in (status.conditions, of_listener))
    return tuple(both)


def certified(delta: ir.Delta) -> dict[tuple[str, ...], int]:
    return {one.names: port.port for port in delta.gateways[GW].tls.ports for one in port.certificates}


def test_its_own_namespace_needs_no_grant():
    own = https("https", "cert", hostname=A)
    delta = delta_of(
        gateway("gw", own, **OPEN), certificate(host=A), certificate(namespace="team", host=B), secured("set", B)
    )
    assert certified(delta) == {(A,): 443, (B,): 443}
    assert [each.socket for each in delta.gateways[GW].listeners] == ["https-443", "https-443"]
    assert conditions_of(delta, "set")[0] == {
        "Accepted": ("True", "Accepted"),
        "Programmed": ("Unknown", "Pending"),
        KEYS_COPIED: ("True", "GatewayInAnotherNamespace"),
    }


def test_a_grant_for_gateways_is_none_for_listener_sets():
    """Nor for those of another namespace."""
    ref = {"name": "cert", "namespace": "vault"}
    objects = [
        gateway("gw", https("https", ref, hostname=A), **OPEN),
        certificate(namespace="vault"),
        secret_grant("vault"),
        secured("near", B, ref, namespace="default"),
        secured("far", C, ref),
    ]
    delta = delta_of(*objects)
    assert certified(delta) == {(A,): 443}
    for name, namespace in (("near", "default"), ("far", "team")):
        of_set, listener = conditions_of(delta, name, namespace)
        assert of_set == {"Accepted": ONLY, "Programmed": ONLY}
        assert listener["ResolvedRefs"] == ("False", "RefNotPermitted")
    delta = delta_of(*objects, secret_grant("vault", "sets", owner="ListenerSet"))
    assert list(certified(delta)) == [(A, B)]
    assert conditions_of(delta, "near", "default")[0]["Accepted"] == ("True", "Accepted")
    assert conditions_of(delta, "far")[0]["Accepted"] == ONLY


def test_rotated_certificate_of_a_listener_set_recomputes_no_route():
    parent = {"kind": "ListenerSet", "name": "set", "namespace": "team"}
    everywhere = https("https", hostname=B, allowedRoutes={"namespaces": {"from": "All"}})
    layers, computed = recording(http_route.LAYER)
    translator = Translator(layers, assume_class=True)
    translator.update(
        keyed(
            gateway(**OPEN),
            certificate(namespace="team"),
            listener_set("set", everywhere, namespace="team"),
            service(),
            route(parentRefs=[parent]),
        )
    )
    computed.clear()
    delta = translator.update(keyed(certificate(namespace="team", host="other.example.com")))
    assert (computed, delta.statuses) == ([], {})
    assert delta.gateways[GW].listeners is None
    assert len(delta.gateways[GW].tls.files) == 1


def test_listener_set_depends_on_the_gateways_client_validation():
    ca = obj("ConfigMap", "ca", "default", group="", data={"ca.crt": "nonsense"})
    ref = {"group": "", "kind": "ConfigMap", "name": "ca"}
    frontend = {"default": {"validation": {"caCertificateRefs": [ref]}}}
    objects = [ca, certificate(namespace="team"), secured("set", B)]
    delta = delta_of(gateway("gw", tls={"frontend": frontend}, **OPEN), *objects)
    assert delta.gateways[GW].tls is None
    assert conditions_of(delta, "set")[1]["Accepted"] == ("False", "NoValidCACertificate")


def test_port_waiting_for_authorities_stays_reserved():
    """Clear text must not come where client certificates are asked for."""
    ref = {"group": "", "kind": "ConfigMap", "name": "gone"}
    frontend = {"default": {"validation": {"caCertificateRefs": [ref]}}}
    plain = listener_set("set", {"name": "plain", "port": 443, "protocol": "HTTP"}, namespace="team")
    delta = delta_of(gateway("gw", https(), tls={"frontend": frontend}, **OPEN), certificate(), plain)
    assert delta.gateways[GW].listeners == ()
    assert conditions_of(delta, "set")[1]["Conflicted"] == ("True", "ProtocolConflict")


def test_quota_is_given_by_precedence():
    """One that is older takes the room of one that is younger, and gives it back."""
    certificates = [certificate(name, "team", host=host) for name, host in (("a", A), ("b", B), ("c", C))]
    old, young = ({"creationTimestamp": f"2024-01-0{day}T00:00:00Z"} for day in (1, 2))
    objects = [gateway(**OPEN), *certificates, secured("z", A, "a", metadata=old), secured("b", B, "b", metadata=young)]
    size = max(len(text) for text in delta_of(*objects).gateways[GW].tls.files.values())
    translator = Translator(assume_class=True, tls_limit=int(size * 2.5))
    delta = translator.update(keyed(*objects))
    assert set(certified(delta)) == {(A,), (B,)}
    older = secured("zz", C, "c", metadata=old)  # it takes no place but that of its hostname
    delta = translator.update(keyed(older))
    assert set(certified(delta)) == {(A,), (C,)}
    of_set, listener = conditions_of(delta, "b")
    assert of_set["Accepted"] == ONLY
    assert listener["Programmed"] == ("False", "Invalid")
    delta = translator.update({api.key_of(older): None})
    assert set(certified(delta)) == {(A,), (B,)}
    assert conditions_of(delta, "b")[0]["Accepted"] == ("True", "Accepted")
    own = https("https", {"name": "c", "namespace": "team"}, hostname=C)
    delta = translator.update(keyed(gateway("gw", own, **OPEN), secret_grant("team")))
    assert set(certified(delta)) == {(A,), (C,)}, "the Gateway's own go first"
    assert conditions_of(delta, "b")[0]["Accepted"] == ONLY
    assert translator.listener_sets.of(GW) == [Key("ListenerSet", "team", name) for name in ("z", "b")]
