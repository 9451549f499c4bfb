"""Each in.yaml translates to exactly its out.yaml.

A case is a directory ``<kind>-<what>``: ``in.yaml`` holds the objects, ``options.yaml``
(where there is one) settings of the translator other than those of one machine. The cases
``manifests-…`` are about what comes of a Gateway in a cluster: see test_manifests.py.
Certificates are made when they are needed: ``${crt NAME}`` and ``${key NAME}`` are the halves of
one, ``${ca NAME}`` is an authority. The same name gives the same bytes, so files have stable names.
``pytest --update-golden`` writes out.yaml; read the difference before you commit it.
"""

import re
from base64 import b64encode
from pathlib import Path

import msgspec
import pytest
import yaml

from support import certificates
from varnish_gateway import api, ir
from varnish_gateway._ghost import check_routing
from varnish_gateway.decoding import decode
from varnish_gateway.ir import wire
from varnish_gateway.translate import Translator

CASES = sorted(
    path for path in Path(__file__).parent.glob("*/in.yaml") if not path.parent.name.startswith("manifests-")
)
REASONS = {
    "BackendTLSPolicy": {
        "Accepted False Conflicted",
        "Accepted False Invalid",
    },
    "Gateway": {
        "Accepted False HostnameConflict",
        "Accepted False InvalidParameters",
        "Accepted False ListenersNotValid",
        "Accepted False NoValidCACertificate",
        "Accepted False PortUnavailable",
        "Accepted False ProtocolConflict",
        "Accepted False UnsupportedAddress",
        "Accepted False UnsupportedProtocol",
        "Accepted False UnsupportedValue",
        "Accepted True Accepted",
        "Accepted True ListenersNotValid",
        "Conflicted False NoConflicts",
        "Conflicted True HostnameConflict",
        "Conflicted True ProtocolConflict",
        "InsecureFrontendValidationMode True ConfigurationChanged",
        "OverlappingTLSConfig True OverlappingHostnames",
        "Programmed False AddressNotUsable",
        "Programmed False HostnameConflict",
        "Programmed False Invalid",
        "Programmed False ProtocolConflict",
        "Programmed Unknown Pending",
        "ResolvedRefs False InvalidCACertificateKind",
        "ResolvedRefs False InvalidCACertificateRef",
        "ResolvedRefs False InvalidCertificateRef",
        "ResolvedRefs False InvalidRouteKinds",
        "ResolvedRefs False ListenersNotResolved",
        "ResolvedRefs False RefNotPermitted",
        "ResolvedRefs True ResolvedRefs",
        "UnsupportedFields True NotSupported",
        "gateway.varnish-software.com/VarnishCachePolicyAffected True PolicyAffected",
    },
    "GatewayClass": {
        "Accepted False InvalidParameters",
        "Accepted True Accepted",
        "Accepted Unknown Pending",
    },
    "ListenerSet": {
        "Accepted False HostnameConflict",
        "Accepted False Invalid",
        "Accepted False ListenersNotValid",
        "Accepted False NotAllowed",
        "Accepted False ParentNotAccepted",
        "Accepted False PortUnavailable",
        "Accepted False ProtocolConflict",
        "Accepted False UnsupportedProtocol",
        "Accepted True Accepted",
        "Accepted True ListenersNotValid",
        "Conflicted False NoConflicts",
        "Conflicted True HostnameConflict",
        "Conflicted True ProtocolConflict",
        "Programmed False HostnameConflict",
        "Programmed False Invalid",
        "Programmed False ListenersNotValid",
        "Programmed False NotAllowed",
        "Programmed False ParentNotProgrammed",
        "Programmed False ProtocolConflict",
        "Programmed Unknown Pending",
        "ResolvedRefs False InvalidCertificateRef",
        "ResolvedRefs False InvalidRouteKinds",
        "ResolvedRefs False RefNotPermitted",
        "ResolvedRefs True ResolvedRefs",
        "gateway.varnish-software.com/KeysCopied True GatewayInAnotherNamespace",
        "gateway.varnish-software.com/VarnishCachePolicyAffected True PolicyAffected",
    },
    "HTTPRoute": {
        "Accepted False IncompatibleFilters",
        "Accepted False NoMatchingListenerHostname",
        "Accepted False NoMatchingParent",
        "Accepted False NotAllowedByListeners",
        "Accepted False UnsupportedValue",
        "Accepted True Accepted",
        "PartiallyInvalid True UnsupportedValue",
        "ResolvedRefs False BackendNotFound",
        "ResolvedRefs False InvalidKind",
        "ResolvedRefs False RefNotPermitted",
        "ResolvedRefs False UnsupportedProtocol",
        "ResolvedRefs True ResolvedRefs",
        "gateway.varnish-software.com/VarnishCachePolicyAffected True PolicyAffected",
    },
    "VarnishCachePolicy": {
        "Accepted False Conflicted",
        "Accepted False Invalid",
        "Accepted False TargetNotFound",
        "Accepted True Accepted",
        "gateway.varnish-software.com/WeightedBackends True SharedByBackends",
    },
}
"""Every condition that translation states, by kind of object (with those of its listeners)."""
ONE_MACHINE = {"assume_class": True, "allow_external_name": True, "one_machine": True}


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.parent.name)
def test_translate_matches_golden(case: Path, update_golden: bool) -> None:
    out = case.with_name("out.yaml")
    got = msgspec.json.decode(msgspec.json.encode(plain(translate(case))))
    if update_golden:
        out.write_text(yaml.safe_dump(got, sort_keys=False, default_flow_style=None, width=200))
    assert got == yaml.safe_load(out.read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.parent.name)
def test_ghost_decodes_every_translation(case: Path) -> None:
    for gateway in translate(case).gateways.values():
        routing = wire.Routing(version=2, listeners=gateway.listeners, routes=tuple(gateway.routes.values()))
        check_routing(msgspec.json.encode(routing))


def test_every_case_has_a_description() -> None:
    assert all(case.read_text().startswith("# ") for case in CASES)


def translate(case: Path) -> ir.Delta:
    options = case.with_name("options.yaml")
    settings = yaml.safe_load(options.read_text()) if options.exists() else {}
    objects = [decode(document) for document in yaml.safe_load_all(filled(case.read_text())) if document]
    return Translator(**ONE_MACHINE | settings).update({api.key_of(obj): obj for obj in objects})


def filled(text: str) -> str:
    """Return the text of a case with its certificates."""

    def fill(found: re.Match[str]) -> str:
        what, name = found[1], found[2]
        if what == "ca":
            return certificates.authority(name).own.decode().replace("\n", "\\n")
        made = certificates.authority("root").issue(name)
        return b64encode(made.crt if what == "crt" else made.private).decode()

    return re.sub(r"\$\{(crt|key|ca) ([^}]+)\}", fill, text)


def plain(delta: ir.Delta) -> dict:
    return {
        "statuses": {str(key): delta.statuses[key] for key in sorted(delta.statuses)},
        "gateways": {str(key): plain_gateway(delta.gateways[key]) for key in sorted(delta.gateways)},
    }


def plain_gateway(gateway: ir.GatewayDelta) -> dict:
    return {
        "listeners": gateway.listeners,
        "userVcl": gateway.user_vcl,
        "parameters": gateway.parameters,
        **({"tls": {"ports": gateway.tls.ports, "files": sorted(gateway.tls.files)}} if gateway.tls else {}),
        "routes": {str(key): gateway.routes[key] for key in sorted(gateway.routes)},
    }


def test_every_reason_has_a_case() -> None:
    told = {
        (kind_of(key), condition["type"], condition["status"], condition["reason"])
        for case in CASES
        for key, status in yaml.safe_load(case.with_name("out.yaml").read_text())["statuses"].items()
        for condition in conditions_in(status)
    }
    assert {(kind, *reason.split()) for kind, reasons in REASONS.items() for reason in reasons} == told


def kind_of(key: str) -> str:
    return key.split(" ", maxsplit=1)[0]


def conditions_in(status: dict) -> list[dict]:
    """Return every condition in a status: its own, its listeners', its parents', its ancestors'."""
    parts = [status, *status.get("listeners", []), *status.get("parents", []), *status.get("ancestors", [])]
    return [condition for part in parts for condition in part.get("conditions", [])]
