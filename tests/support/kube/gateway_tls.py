"""Certificates for Gateways: a user's Secrets and listeners, and the Secret that the operator writes."""

from base64 import b64decode
from typing import Any

import msgspec

from support import certificates
from support.kube.documents import Document
from support.kube.operator_harness import OperatorHarness
from varnish_gateway.emit.names import TOKEN, secret
from varnish_gateway.ir import wire

ROOT = certificates.authority("root")


def https(name: str, *refs: str, namespace: str | None = None, port: int = 443, **more: Any) -> Document:
    named = [{"name": ref} | ({"namespace": namespace} if namespace else {}) for ref in refs]
    everyone = {"namespaces": {"from": "All"}}
    certified = {"certificateRefs": named}
    return {"name": name, "port": port, "protocol": "HTTPS", "tls": certified, "allowedRoutes": everyone, **more}


def certify(
    harness: OperatorHarness, name: str, host: str = "www.example.com", namespace: str | None = None, **more: Any
) -> None:
    harness.put(ROOT.issue(host, **more).secret(namespace or harness.namespace, name))


def gateway_secret(harness: OperatorHarness, name: str = "gw") -> dict[str, bytes]:
    """Return what the Gateway's Secret holds of TLS."""
    found = harness.find("Secret", secret(name)) or {}
    return {key: b64decode(text) for key, text in found.get("data", {}).items() if key != TOKEN}


def certificate_names(harness: OperatorHarness, name: str = "gw") -> dict[int, list[tuple[str, ...]]]:
    """Return the hostnames of listeners by port, as their certificates name them first."""
    data = gateway_secret(harness, name)
    if "tls.json" not in data:
        return {}
    tls = msgspec.json.decode(data.pop("tls.json"), type=wire.TlsDocument)
    named = {one.file for port in tls.ports for one in port.certificates}
    assert msgspec.json.decode(data.pop("sources.json")).keys() == named
    assert named | {port.clients.file for port in tls.ports if port.clients} == data.keys()
    return {port.port: [one.names[:1] for one in port.certificates] for port in tls.ports}


def listener(harness: OperatorHarness, name: str = "https", gateway: str = "gw") -> dict[str, tuple[str, str]]:
    found = harness.get("Gateway", gateway).get("status", {}).get("listeners", ())
    conditions = [c for one in found if one["name"] == name for c in one["conditions"]]
    return {c["type"]: (c["status"], c["reason"]) for c in conditions}


def until_listener(harness: OperatorHarness, name: str, **expected: tuple[str, str]) -> None:
    harness.wait_for(lambda: expected.items() <= listener(harness, name).items(), f"{name} is {expected}")


def until_names(harness: OperatorHarness, expected: dict[int, list[tuple[str, ...]]]) -> None:
    harness.wait_for(lambda: certificate_names(harness) == expected, f"certificates are {expected}")
