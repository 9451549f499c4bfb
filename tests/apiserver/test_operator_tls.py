"""Certificates: from a user's Secrets into the one that a Gateway's pods read, and their conditions."""

import contextlib
import json
import re
import socket
import ssl
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest
from cryptography import x509

from support import certificates
from support.kube.documents import GATEWAY_API, Document, gateway_class, put, route, service
from support.kube.gateway_status import give_address, is_programmed
from support.kube.gateway_tls import (
    ROOT,
    certificate_names,
    certify,
    gateway_secret,
    https,
    listener,
    until_listener,
    until_names,
)
from support.kube.operator_harness import OperatorHarness
from support.kube.operator_process import OperatorProcess
from support.kube.pods.gateway_pod import GatewayPod
from varnish_gateway.emit.manifests.containers import HEALTH_PORT
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir import wire
from varnish_gateway.ir.capabilities import ALL
from varnish_gateway.translate.tls.blocks import CERTIFICATE_BYTES


def template(harness: OperatorHarness) -> Document:
    return dict(harness.get("Deployment")["spec"]["template"])


def let(namespace: str, source: str, kind: str = "Secret") -> Document:
    """Let the Gateways of a namespace use what is in another."""
    spec = {
        "from": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": source}],
        "to": [{"group": "", "kind": kind}],
    }
    metadata = {"name": f"let-{kind.lower()}", "namespace": namespace}
    return {"apiVersion": GATEWAY_API, "kind": "ReferenceGrant", "metadata": metadata, "spec": spec}


# -- the Secret ----------------------------------------------------------------------------------


def test_certificates_are_copied_to_the_gateway_secret_and_pods_listen(harness):
    certify(harness, "cert")
    harness.put(service(harness.namespace, "tea"), route(harness.namespace, "tea", "gw"))
    harness.gateway(listeners=[https("https", "cert")])
    assert certificate_names(harness) == {443: [("*",)]}
    found = harness.get("Secret", "gw-vgw-tls")
    assert found["type"] == "Opaque"
    assert found["metadata"]["ownerReferences"][0]["uid"] == harness.get("Gateway")["metadata"]["uid"]
    assert [(port["name"], port["port"]) for port in harness.get("Service")["spec"]["ports"]] == [("https-443", 443)]
    container = template(harness)["spec"]["containers"][0]
    assert ("https-443", 443) in [(port["name"], port["containerPort"]) for port in container["ports"]]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["VARNISH_LISTEN"].endswith(";https-443=:443,https")
    assert environment["SECRET_NAME"] == "gw-vgw-tls"
    (wired,) = harness.routing().listeners
    assert (wired.socket, wired.scheme) == ("https-443", "https")
    assert [by.listener for by in harness.routing().routes[0].attachments] == ["https"]


def test_without_tls_the_secret_is_empty(harness):
    harness.gateway()
    assert gateway_secret(harness) == {}
    assert harness.find("Secret", "gw-vgw-tls") is not None


def test_rotated_certificate_changes_the_secret_and_keeps_pods(harness):
    certify(harness, "cert")
    harness.gateway(listeners=[https("https", "cert")])
    before, writes, pods = gateway_secret(harness), harness.operator.writes(), template(harness)
    certify(harness, "cert", "rotated.example.com")
    harness.wait_for(lambda: gateway_secret(harness) not in ({}, before), "the new certificate")
    harness.operator.wait_idle()
    assert certificate_names(harness) == {443: [("*",)]}
    assert not before.keys() & gateway_secret(harness).keys() - {"tls.json", "sources.json"}, "the former file is gone"
    assert template(harness) == pods
    after = harness.operator.writes()
    changed = {name for name in after if after[name] != writes.get(name) and not name.startswith("Gateway ")}
    assert changed == {"Secret apply"}
    assert harness.operator.writes()["Secret apply"] == writes["Secret apply"] + 1


def test_late_missing_or_broken_certificate_replaces_no_pod(harness):
    harness.gateway(listeners=[https("https", "cert")])
    harness.operator.wait_idle()
    pods = template(harness)
    assert harness.routing().listeners == (), "nothing is served without a certificate"
    certify(harness, "cert")
    harness.wait_for(lambda: certificate_names(harness) == {443: [("*",)]}, "the certificate")
    harness.wait_for(lambda: harness.routing().listeners, "the listener")
    served = gateway_secret(harness)
    harness.delete("Secret", "cert")
    until_listener(harness, "https", ResolvedRefs=("False", "InvalidCertificateRef"))
    harness.operator.wait_idle()
    assert gateway_secret(harness) == served, "the last valid certificate stays"
    assert template(harness) == pods


def test_unreferenced_secret_causes_no_write(harness):
    certify(harness, "cert")
    harness.gateway(listeners=[https("https", "cert")])
    before = harness.operator.writes()
    certify(harness, "stranger")
    harness.change("Secret", "cert", {"metadata": {"annotations": {"a": "b"}}})
    certify(harness, "later")
    harness.gateway("second", listeners=[https("https", "later")])
    assert harness.operator.writes()["Secret apply"] == before["Secret apply"] + 1, "that of the second Gateway"


def test_deleted_or_edited_gateway_secret_is_restored(harness):
    certify(harness, "cert")
    harness.gateway(listeners=[https("https", "cert")])
    good = gateway_secret(harness)
    harness.delete("Secret", "gw-vgw-tls")
    harness.wait_for(lambda: gateway_secret(harness) == good, "the Secret")
    harness.change("Secret", "gw-vgw-tls", {"data": {"tls.json": "eA=="}})
    message = harness.until_condition("Gateway", "gw", "Programmed", "Invalid")["message"]
    assert "Secret" in message
    assert "delete the Secret, and the operator recreates it at once" in message
    harness.delete("Secret", "gw-vgw-tls")
    harness.wait_for(lambda: gateway_secret(harness) == good, "the Secret")
    harness.wait_for(lambda: harness.conditions("Gateway")["Programmed"]["reason"] != "Invalid", "no fault")


def test_foreign_secret_of_the_same_name_is_never_changed(harness):
    certify(harness, "cert")
    foreign = certificates.secret(harness.namespace, "gw-vgw-tls", b"theirs", b"theirs")
    harness.put(foreign)
    before = harness.get("Secret", "gw-vgw-tls")
    harness.put(gateway_with(harness, https("https", "cert")))
    message = harness.until_condition("Gateway", "gw", "Programmed", "Invalid")["message"]
    assert "gw-vgw-tls exists and is not managed by Varnish Gateway" in message
    assert harness.get("Secret", "gw-vgw-tls") == before
    harness.delete("Secret", "gw-vgw-tls")
    until_names(harness, {443: [("*",)]})


def gateway_with(harness: OperatorHarness, *listeners: Document, **spec: Any) -> Document:
    return {
        "apiVersion": GATEWAY_API,
        "kind": "Gateway",
        "metadata": {"name": "gw", "namespace": harness.namespace},
        "spec": {"gatewayClassName": harness.class_name, "listeners": list(listeners), **spec},
    }


def test_private_keys_are_never_logged(harness):
    made = ROOT.issue("www.example.com")
    harness.put(made.secret(harness.namespace, "cert"))
    harness.put(certificates.secret(harness.namespace, "broken", made.crt, made.private[:-40]))
    harness.gateway(listeners=[https("https", "cert"), https("b", "broken", hostname="b.example.com")])
    reported = harness.operator.log.read_text() + json.dumps(harness.get("Gateway")) + json.dumps(harness.all("Event"))
    assert "InvalidCertificateRef" in reported
    key = made.private.decode().splitlines()[1]
    for part in re.findall(".{20}", key):
        assert part not in reported
    assert "PRIVATE KEY" not in reported


# -- what is wrong -------------------------------------------------------------------------------


def test_missing_certificate_sets_conditions_until_created(harness):
    plain = {"name": "http", "port": 80, "protocol": "HTTP"}
    harness.gateway(listeners=[plain, https("https", "cert")])
    until_listener(harness, "https", ResolvedRefs=("False", "InvalidCertificateRef"), Programmed=("False", "Invalid"))
    assert listener(harness, "https")["Accepted"] == ("True", "Accepted")
    assert listener(harness, "http")["ResolvedRefs"] == ("True", "ResolvedRefs")
    assert {one.name for one in harness.routing().listeners} == {"http"}
    certify(harness, "cert")
    until_listener(harness, "https", ResolvedRefs=("True", "ResolvedRefs"))
    until_names(harness, {443: [("*",)]})
    assert {one.name for one in harness.routing().listeners} == {"http", "https"}
    harness.delete("Secret", "cert")
    until_listener(harness, "https", ResolvedRefs=("False", "InvalidCertificateRef"))
    assert certificate_names(harness) == {443: [("*",)]}, "a deletion may be a mistake"
    harness.change("Gateway", "gw", {"spec": {"listeners": [plain]}})
    until_names(harness, {})


def test_invalid_certificate_affects_only_its_listener(harness):
    good, other = ROOT.issue("good.example.com"), ROOT.issue("other")
    harness.put(
        good.secret(harness.namespace, "good"),
        certificates.secret(harness.namespace, "mismatched", good.crt, other.private),
        certificates.secret(harness.namespace, "malformed", b"Hello world\n", b"Hello world\n"),
        certificates.secret(harness.namespace, "huge", good.crt + b"\n" * 900_000, good.private),
        {**good.secret(harness.namespace, "opaque"), "type": "Opaque"},
    )
    names = ("good", "mismatched", "malformed", "huge", "opaque", "missing")
    harness.gateway(listeners=[https(name, name, hostname=f"{name}.example.com") for name in names])
    until_listener(harness, "good", ResolvedRefs=("True", "ResolvedRefs"))
    for name in names[1:]:
        until_listener(harness, name, ResolvedRefs=("False", "InvalidCertificateRef"), Programmed=("False", "Invalid"))
    assert certificate_names(harness) == {443: [("good.example.com",)]}
    reported = {one["name"]: one["conditions"] for one in harness.get("Gateway")["status"]["listeners"]}
    (opaque,) = (c["message"] for c in reported["opaque"] if c["type"] == "ResolvedRefs")
    assert "opaque of the type kubernetes.io/tls does not exist" in opaque, "others are not even read"
    conditions = harness.conditions("Gateway")
    assert (conditions["Accepted"]["status"], conditions["Accepted"]["reason"]) == ("True", "ListenersNotValid")


def test_a_grant_is_added_and_removed(harness, other):
    certify(harness, "cert", namespace=other)
    harness.gateway(listeners=[https("https", "cert", namespace=other)])
    until_listener(harness, "https", ResolvedRefs=("False", "RefNotPermitted"), Programmed=("False", "Invalid"))
    assert gateway_secret(harness) == {}
    harness.put(let(other, harness.namespace))
    until_names(harness, {443: [("*",)]})
    until_listener(harness, "https", ResolvedRefs=("True", "ResolvedRefs"))
    harness.delete("ReferenceGrant", "let-secret", other)
    until_names(harness, {})
    until_listener(harness, "https", ResolvedRefs=("False", "RefNotPermitted"))


def test_certificates_within_quota_are_served_and_fit_the_secret(harness):
    """About 24 of 30 large certificates have room in one Secret."""
    names = [f"c{number}" for number in range(30)]
    for name in names:
        certify(harness, name, f"{name}.example.com", padding=CERTIFICATE_BYTES // 2)
    harness.gateway(listeners=[https(name, name, hostname=f"{name}.example.com") for name in names])
    served = [found for (found,) in certificate_names(harness)[443]]
    assert served == [f"{name}.example.com" for name in names[: len(served)]]
    assert 20 < len(served) < 30
    size = sum(map(len, gateway_secret(harness).values()))
    assert 900_000 < size < 1 << 20
    until_listener(harness, names[len(served)], ResolvedRefs=("False", "InvalidCertificateRef"))
    until_listener(harness, names[len(served) - 1], ResolvedRefs=("True", "ResolvedRefs"))
    assert not harness.operator.log.read_text().count("ApplyRefused")


# -- what clients have to show -------------------------------------------------------------------


def validated(*names: str, **more: Any) -> Document:
    refs = [{"group": "", "kind": "ConfigMap", "name": name, **more} for name in names]
    return {"frontend": {"default": {"validation": {"caCertificateRefs": refs}}}}


def clients(harness: OperatorHarness) -> bytes | None:
    """Return the authorities for clients of port 443."""
    data = gateway_secret(harness)
    if "tls.json" not in data:
        return None
    port = msgspec.json.decode(data["tls.json"], type=wire.TlsDocument).ports[0]
    return data[port.clients.file] if port.clients else None


def test_port_is_closed_without_authorities_and_follows_their_changes(harness):
    certify(harness, "cert")
    harness.gateway(listeners=[https("https", "cert")], tls=validated("ca"))
    until_listener(
        harness,
        "https",
        ResolvedRefs=("False", "InvalidCACertificateRef"),
        Accepted=("False", "NoValidCACertificate"),
        Programmed=("False", "Invalid"),
    )
    assert gateway_secret(harness) == {}
    harness.put(certificates.config_map(harness.namespace, "ca", ROOT))
    harness.wait_for(lambda: clients(harness) == ROOT.own, "the authority")
    until_listener(harness, "https", ResolvedRefs=("True", "ResolvedRefs"), Accepted=("True", "Accepted"))
    second = certificates.authority("second")
    harness.put(certificates.config_map(harness.namespace, "ca", ROOT, second))
    harness.wait_for(lambda: clients(harness) == ROOT.own + second.own, "both")
    harness.delete("ConfigMap", "ca")
    until_names(harness, {})
    until_listener(harness, "https", Accepted=("False", "NoValidCACertificate"))
    harness.gateway(listeners=[https("https", "cert")])
    until_names(harness, {443: [("*",)]})
    assert clients(harness) is None


def test_authorities_of_another_namespace_need_a_grant(harness, other):
    certify(harness, "cert")
    harness.put(certificates.config_map(other, "ca", ROOT))
    harness.gateway(listeners=[https("https", "cert")], tls=validated("ca", namespace=other))
    until_listener(
        harness, "https", ResolvedRefs=("False", "RefNotPermitted"), Accepted=("False", "NoValidCACertificate")
    )
    harness.put(let(other, harness.namespace, "ConfigMap"))
    harness.wait_for(lambda: clients(harness) == ROOT.own, "the authority")


# -- when it is programmed -----------------------------------------------------------------------


@pytest.fixture
def reported() -> dict[str, Any]:
    """Have what a pod's chaperone reports; tests change it."""
    sockets = ["https-443=:443", "ghost-reload=127.0.0.1:1969"]
    return {"sockets": sockets, "upToDate": True, "generation": "1", "capabilities": sorted(ALL)}


@pytest.fixture
def chaperone(reported: dict[str, Any]) -> type[BaseHTTPRequestHandler]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(reported).encode())

        def log_message(self, *_: object) -> None:
            pass

    return Answer


def test_programmed_waits_for_pods_to_serve_the_certificates(harness, reported, chaperone):
    certify(harness, "cert")
    harness.gateway(listeners=[https("https", "cert")])
    give_address(harness)
    pod = GatewayPod(harness)
    server = ThreadingHTTPServer((pod.address, HEALTH_PORT), chaperone)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    reported["vcl"] = content_hash(harness.get("ConfigMap", "gw-vcl")["data"]["main.vcl"].encode())
    try:
        pod.create()
        message = harness.until_condition("Gateway", "gw", "Programmed", "Pending")["message"]
        harness.wait_for(
            lambda: "the newest certificate" in harness.conditions("Gateway")["Programmed"]["message"], message
        )
        reported["tls"] = content_hash(gateway_secret(harness)["tls.json"])
        harness.wait_for(lambda: is_programmed(harness, 1), "programmed")
        certify(harness, "cert", "rotated.example.com")
        harness.wait_for(lambda: not is_programmed(harness, 1), "another certificate")
        reported["tls"] = content_hash(gateway_secret(harness)["tls.json"])
        harness.wait_for(lambda: is_programmed(harness, 1), "programmed again")
    finally:
        harness.delete("Pod", pod.name)
        server.shutdown()
        server.server_close()


def shown(
    pod: GatewayPod, name: str, port: int = 443, client: certificates.Issued | None = None
) -> x509.Certificate | None:
    """Return the certificate that a client gets to see who asks for something; None where it is turned away."""
    context = ssl.create_default_context(cadata=ROOT.own.decode())
    context.check_hostname = False
    with tempfile.NamedTemporaryFile() as file, contextlib.suppress(OSError):
        if client is not None:
            file.write(client.crt + client.private)
            file.flush()
            context.load_cert_chain(file.name)
        with (
            socket.create_connection((pod.address, port), timeout=10) as link,
            context.wrap_socket(link, server_hostname=name) as secure,
        ):
            secure.sendall(f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
            if secure.recv(12).startswith(b"HTTP/1.1 "):
                return x509.load_der_x509_certificate(secure.getpeercert(binary_form=True) or b"")
    return None


def curved(name: str, turn: int = 0) -> certificates.Issued:
    """Return a certificate as usual clients take it."""
    return ROOT.issue(name, key=certificates.curve_key(), hosts=(name, f"turn{turn}.example.com"))


def test_pods_serve_the_certificates_of_the_gateway_secret(harness):
    """From Secrets to clients: several names, a rotation, a certificate that comes later, client certificates."""
    www, api = curved("www.example.com"), curved("api.example.com")
    harness.put(www.secret(harness.namespace, "www"))
    listeners = [https(name, name, hostname=f"{name}.example.com") for name in ("www", "api")]
    guarded = https("guarded", "www", port=8443)
    tls = {"frontend": {"default": {}, "perPort": [{"port": 8443, "tls": validated("ca")["frontend"]["default"]}]}}
    harness.put(certificates.config_map(harness.namespace, "ca", ROOT))
    harness.gateway(listeners=[*listeners, guarded], tls=tls)
    give_address(harness)
    with GatewayPod(harness).running() as pod:
        harness.wait_for(lambda: is_programmed(harness, 1), "programmed")
        assert shown(pod, "www.example.com") == www.certificate
        assert listener(harness, "api")["Programmed"] == ("False", "Invalid")
        harness.put(api.secret(harness.namespace, "api"))
        harness.wait_for(lambda: shown(pod, "api.example.com") == api.certificate, "the certificate that came later")
        rotated = curved("www.example.com", turn=1)
        harness.put(rotated.secret(harness.namespace, "www"))
        harness.wait_for(lambda: shown(pod, "www.example.com") == rotated.certificate, "the rotated certificate")
        harness.wait_for(lambda: is_programmed(harness, 1), "programmed again")
        assert shown(pod, "www.example.com", 8443) is None, "without a client certificate"
        assert shown(pod, "www.example.com", 8443, ROOT.issue("client", key=certificates.curve_key()))
        stranger = certificates.authority("stranger").issue("client", key=certificates.curve_key())
        assert shown(pod, "www.example.com", 8443, stranger) is None


# -- restarts ------------------------------------------------------------------------------------


def test_restart_with_certificates_in_place_writes_nothing(cluster, namespace, tmp_path):
    put(cluster, gateway_class(namespace))
    operator = OperatorProcess(cluster, tmp_path, class_name=namespace).start()
    harness = OperatorHarness(cluster, operator, namespace)
    try:
        certify(harness, "cert")
        harness.put(certificates.config_map(namespace, "ca", ROOT))
        harness.gateway(listeners=[https("https", "cert")], tls=validated("ca"))
        assert clients(harness) == ROOT.own
        before = {one["kind"]: one["metadata"]["resourceVersion"] for one in harness.owned()}
        operator.stop()
        operator.start()
        assert operator.writes() == {}
        assert {one["kind"]: one["metadata"]["resourceVersion"] for one in harness.owned()} == before
        operator.stop()
        certify(harness, "cert", "rotated.example.com")
        harness.put(gateway_class(namespace, parameters="missing"))
        good = gateway_secret(harness)
        operator.start()
        harness.wait_for(
            lambda: gateway_secret(harness) != good, "the new certificate, also while the class is at fault"
        )
        harness.put(
            {**gateway_with(harness, https("https", "cert")), "metadata": {"name": "new", "namespace": namespace}}
        )
        harness.until_condition("Gateway", "new", "Accepted", "InvalidParameters")
        operator.wait_idle()
        assert harness.find("Secret", "new-tls") is None
        harness.put(gateway_class(namespace))
        harness.wait_for(lambda: gateway_secret(harness, "new"), "the new Gateway's certificates")
    finally:
        operator.stop()
