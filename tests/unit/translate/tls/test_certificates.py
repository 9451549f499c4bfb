"""Which certificates a listener has, and why it does not have the others."""

from base64 import b64encode

import pytest

from support.builders.objects import certificate, obj, secret_grant, view_of
from support.certificates import authority, secret
from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.api.gateway_networking import ListenerTls, ObjectReference
from varnish_gateway.decoding import decode
from varnish_gateway.translate.grants import Referrer
from varnish_gateway.translate.incremental.store import ObjectStore
from varnish_gateway.translate.incremental.view import View
from varnish_gateway.translate.tls import pem
from varnish_gateway.translate.tls.certificates import Certified, resolve

GATEWAY = Referrer("Gateway", "default")
GW = Key("Gateway", "default", "gw")


def asked(*names: str, **fields) -> ListenerTls:
    return ListenerTls(certificate_refs=tuple(ObjectReference(name=name, **fields) for name in names))


def reasons(found: Certified) -> list[str]:
    return [problem.reason for problem in found.problems]


def test_several_certificates_in_the_order_of_the_spec():
    view = view_of(certificate("one", host="one"), certificate("two", host="two"))
    found = resolve(asked("two", "one", "two"), GATEWAY, GW, view)
    assert len(found.files) == 2
    assert found.files[::-1] == resolve(asked("one", "two"), GATEWAY, GW, view).files
    assert found.problems == ()


def test_a_certificate_that_is_there_is_served_beside_one_that_is_not():
    view = view_of(certificate())
    found = resolve(asked("missing", "cert"), GATEWAY, GW, view)
    assert len(found.files) == 1
    assert reasons(found) == ["InvalidCertificateRef"]
    assert "Secret default/missing of the type kubernetes.io/tls does not exist" in found.problems[0].message
    assert Key("Secret", "default", "missing") in view.dependencies


@pytest.mark.parametrize("tls", [None, ListenerTls()])
def test_no_certificate_is_asked_for(tls):
    assert reasons(resolve(tls, GATEWAY, GW, view_of())) == ["InvalidCertificateRef"]


@pytest.mark.parametrize("fields", [{"group": "example.com"}, {"kind": "WrongKind"}])
def test_other_kinds(fields):
    found = resolve(asked("cert", **fields), GATEWAY, GW, view_of(certificate()))
    assert reasons(found) == ["InvalidCertificateRef"]
    assert "use a Secret" in found.problems[0].message


def test_secret_of_another_namespace_needs_a_grant():
    there = certificate(namespace="team")
    without = resolve(asked("cert", namespace="team"), GATEWAY, GW, view_of(there))
    assert reasons(without) == ["RefNotPermitted"]
    assert without == resolve(asked("cert", namespace="team"), GATEWAY, GW, view_of())
    granted = resolve(asked("cert", namespace="team"), GATEWAY, GW, view_of(there, secret_grant("team")))
    assert len(granted.files) == 1
    assert reasons(resolve(asked("cert", namespace="team"), GATEWAY, GW, view_of(secret_grant("team")))) == [
        "InvalidCertificateRef"
    ]


def test_an_owner_of_another_kind_needs_a_grant_of_its_own():
    view = view_of(certificate(namespace="team"), secret_grant("team"))
    found = resolve(asked("cert", namespace="team"), Referrer("ListenerSet", "default"), GW, view)
    assert "lets ListenerSets of default use Secret cert" in found.problems[0].message


def test_its_own_namespace_is_the_owners():
    view = view_of(certificate(namespace="team"))
    assert len(resolve(asked("cert"), Referrer("ListenerSet", "team"), GW, view).files) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"type": "Opaque"}, "its type is Opaque"),
        ({"data": {}}, "it has no tls.crt"),
        ({"data": {"tls.crt": b64encode(b"x").decode()}}, "it has no tls.key"),
        ({"data": {"tls.crt": "SGVsbG8gd29ybGQK", "tls.key": "SGVsbG8gd29ybGQK"}}, "holds no certificate"),
    ],
)
def test_secrets_that_can_not_be_used(changes, words):
    document = authority("root").issue("www").secret("default", "cert") | changes
    found = resolve(asked("cert"), GATEWAY, GW, view_of(decode(document)))
    assert reasons(found) == ["InvalidCertificateRef"]
    assert found.problems[0].message.startswith("Secret default/cert: ")
    assert words in found.problems[0].message


def test_plain_text_counts_as_an_api_server_would_take_it():
    made = authority("root").issue("www")
    plain = obj("Secret", "cert", "default", group="", type="kubernetes.io/tls")
    text = {"stringData": {"tls.crt": made.crt.decode(), "tls.key": made.private.decode()}}
    document = secret("default", "cert", b"", b"") | text
    assert plain.value("tls.crt") is None
    (found,) = resolve(asked("cert"), GATEWAY, GW, view_of(decode(document))).files
    assert found.name == pem.certificate(made.crt, made.private).name


def test_secret_is_validated_once_until_it_changes(monkeypatch):
    validated = []
    monkeypatch.setattr(
        pem, "certificate", lambda chain, key: validated.append(chain) or pem.named(chain + key, ".pem")
    )
    store = ObjectStore()
    key = Key("Secret", "default", "cert")

    def put(one: api.Secret | None) -> Certified:
        store.put(key, one)
        return resolve(asked("cert", "cert"), GATEWAY, GW, View(store))

    first = put(certificate())
    assert put(certificate()) == first
    assert len(validated) == 1
    second = put(certificate(host="other"))
    assert second != first
    assert len(validated) == 2
    assert reasons(put(None))
    assert store.validations == {}
    assert put(certificate()) == first
    assert len(validated) == 3


def test_repr_of_a_secret_hides_its_content():
    assert repr(certificate()) == "Secret(default/cert)"
