"""What clients have to show, and what becomes of references that can't be resolved."""

import pytest

from support.builders.objects import secret_grant, view_of
from support.certificates import authority, config_map, pem
from varnish_gateway import api
from varnish_gateway.api.gateway_networking import Frontend, FrontendValidation, ObjectReference
from varnish_gateway.decoding import decode
from varnish_gateway.translate.grants import Referrer
from varnish_gateway.translate.tls import client_validation
from varnish_gateway.translate.tls.blocks import AUTHORITY_BYTES
from varnish_gateway.translate.tls.client_validation import ClientAuthorities, is_insecure
from varnish_gateway.translate.tls.pem import named

GATEWAY = Referrer("Gateway", "default")
ONE, TWO = authority("one"), authority("two")


def ca(name: str, *authorities, namespace: str = "default", **changes) -> api.Object:
    return decode(config_map(namespace, name, *authorities) | changes)


def resolve(*refs: str | dict, view: tuple = (), mode: str = "AllowValidOnly") -> ClientAuthorities:
    named = [{"kind": "ConfigMap"} | ({"name": ref} if isinstance(ref, str) else ref) for ref in refs]
    validation = FrontendValidation(ca_certificate_refs=tuple(ObjectReference(**ref) for ref in named), mode=mode)
    found = client_validation.resolve(validation, GATEWAY, view_of(*view))
    assert found is not None
    return found


def reasons(found: ClientAuthorities) -> list[str]:
    return [problem.reason for problem in found.problems]


def test_nothing_is_asked_of_clients():
    assert client_validation.resolve(None, GATEWAY, view_of()) is None


def test_authorities_of_several_references_are_one_file():
    found = resolve("one", "two", "one", view=(ca("one", ONE), ca("two", TWO)))
    assert found == ClientAuthorities(named(pem(ONE.certificate, TWO.certificate), ".ca.pem"), insecure=False)
    assert found.rejected is None


def test_the_fallback():
    assert resolve("one", view=(ca("one", ONE),), mode="AllowInsecureFallback").insecure
    assert not resolve("one", view=(ca("one", ONE),), mode="SomethingElse").insecure, "who knows what it is"


@pytest.mark.parametrize("mode", ["AllowValidOnly", "AllowInsecureFallback"])
@pytest.mark.parametrize(
    ("ref", "reason", "words"),
    [
        ("missing", "InvalidCACertificateRef", "ConfigMap default/missing does not exist"),
        ("empty", "InvalidCACertificateRef", "it has no key ca.crt"),
        ("bad", "InvalidCACertificateRef", "ca.crt holds no certificate"),
        ({"name": "one", "kind": "Service"}, "InvalidCACertificateKind", "core/Service is not supported"),
        ({"name": "one", "kind": "Secret"}, "InvalidCACertificateKind", "core/Secret is not supported"),
        ({"name": "one", "group": "example.com"}, "InvalidCACertificateKind", "example.com/ConfigMap"),
        ({"name": "one", "namespace": "team"}, "RefNotPermitted", "lets Gateways of default use ConfigMap one"),
    ],
)
def test_references_that_can_not_be_resolved(ref, reason, words, mode):
    view = (ca("one", ONE), ca("one", ONE, namespace="team"), ca("empty", data={}), ca("bad", data={"ca.crt": "x"}))
    found = resolve(ref, view=view, mode=mode)
    assert (found.file, reasons(found)) == (None, [reason])
    assert words in found.problems[0].message
    assert (found.rejected.reason, found.rejected.message) == ("NoValidCACertificate", found.problems[0].message)
    beside = resolve(ref, "one", view=view, mode=mode)
    assert (reasons(beside), beside.rejected) == ([reason], None)
    assert beside.file == resolve("one", view=view).file


def test_authority_in_another_namespace_needs_a_grant():
    view = (ca("one", ONE, namespace="team"), secret_grant("team", kind="ConfigMap"))
    assert resolve({"name": "one", "namespace": "team"}, view=view).file


def test_no_reference_at_all_is_no_authority():
    assert resolve().rejected.reason == "NoValidCACertificate"


def test_authorities_that_are_too_many_together():
    many = [authority(f"a{number}", padding=AUTHORITY_BYTES // 2) for number in range(2)]
    view = tuple(ca(f"m{number}", one) for number, one in enumerate(many))
    assert resolve("m0", view=view).file
    found = resolve("m0", "m1", view=view)
    assert (found.file, found.rejected.reason) == (None, "NoValidCACertificate")


def frontend(**spec) -> Frontend:
    document = {"gatewayClassName": "varnish", "tls": {"frontend": spec}}
    gateway = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "g"}}
    return decode(gateway | {"spec": document}).spec.tls.frontend


def test_a_port_of_its_own_counts_in_place_of_the_default():
    default, own = {"validation": {"caCertificateRefs": []}}, {"validation": {"mode": "AllowInsecureFallback"}}
    found = frontend(default=default, perPort=[{"port": 8443, "tls": own}, {"port": 9443, "tls": {}}])
    assert found.validation(443).mode == "AllowValidOnly"
    assert found.validation(8443).mode == "AllowInsecureFallback"
    assert found.validation(9443) is None
    assert is_insecure(found)
    assert not is_insecure(frontend(default=default))
    assert is_insecure(frontend(default=own))
