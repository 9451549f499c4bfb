"""TLS termination on the listeners of one Gateway.

In:   validated listeners, each with the tls of its spec and the object that it is part of, and
      the client validation of the Gateway.
Out:  Secured: the listeners with their conditions completed, and Material, the files by
      listener. ``assemble`` turns it into ir.Tls for the listeners that are served.

One valid certificate is enough for a listener to be served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from varnish_gateway import ir
from varnish_gateway.ir import wire
from varnish_gateway.translate import hostnames
from varnish_gateway.translate.conditions import Problem, joined, summary
from varnish_gateway.translate.grants import Referrer
from varnish_gateway.translate.tls import certificates, client_validation
from varnish_gateway.translate.tls.material import Material
from varnish_gateway.translate.tls.quota import Quota

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from varnish_gateway.api import Key
    from varnish_gateway.api.gateway_networking import Frontend, ListenerTls
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.listener import ValidatedListener
    from varnish_gateway.translate.tls.certificates import Certified
    from varnish_gateway.translate.tls.client_validation import ClientAuthorities
    from varnish_gateway.translate.tls.pem import File


class TlsRequest(NamedTuple):
    """A listener, the tls of its spec, and the object that it is part of."""

    listener: ValidatedListener
    tls: ListenerTls | None
    referrer: Referrer


class Secured(NamedTuple):
    listeners: tuple[ValidatedListener, ...]
    material: Material


def secure(requests: Sequence[TlsRequest], frontend: Frontend, gateway: Key, view: View, limit: int | None) -> Secured:
    """Return the listeners of a Gateway with their certificates; the first ones are charged to the quota first."""
    ports = sorted({one.listener.port for one in requests if one.listener.scheme == "https"})
    owner = Referrer(gateway.kind, gateway.namespace)
    resolved = {port: client_validation.resolve(frontend.validation(port), owner, view) for port in ports}
    clients = {port: found for port, found in resolved.items() if found is not None}
    quota = Quota(limit)
    secured: list[ValidatedListener] = []
    files: dict[str, tuple[File, ...]] = {}
    for one in requests:
        listener = one.listener
        if listener.scheme == "https":
            certified = certificates.resolve(one.tls, one.referrer, gateway, view)
            listener, taken = _secured(listener, certified, clients.get(listener.port), quota)
            files[listener.id] = taken
        secured.append(listener)
    return Secured(tuple(secured), Material(files, clients))


def assemble(listeners: Iterable[ValidatedListener], material: Material) -> ir.Tls:
    """Return the TLS of the listeners that are served.

    A port's first certificate is that of the listener for any hostname, or of the first listener.
    """
    named: dict[int, dict[str, dict[str, None]]] = {}
    files: dict[str, bytes] = {}
    sources: dict[str, dict[Key, None]] = {}
    secure = [listener for listener in listeners if listener.scheme == "https"]
    for listener in sorted(secure, key=lambda listener: listener.hostname != hostnames.ANY):
        for file in material.certificates[listener.id]:
            names = named.setdefault(listener.port, {}).setdefault(file.name, {})
            names.update(dict.fromkeys((listener.hostname, *_own_hosts(file, listener, secure))))
            files[file.name] = file.text
            if file.source is not None:
                sources.setdefault(file.name, {})[file.source] = None
    validations = {port: clients for port, clients in material.clients.items() if port in named}
    files.update({clients.file.name: clients.file.text for clients in validations.values() if clients.file})
    ports = (_port(port, certified, validations.get(port)) for port, certified in sorted(named.items()))
    return ir.Tls(tuple(ports), files, {name: tuple(each) for name, each in sources.items()})


def _own_hosts(file: File, listener: ValidatedListener, others: Iterable[ValidatedListener]) -> Sequence[str]:
    """Return those host names of a certificate for which its listener serves the requests.

    They tell the certificates of one listener apart, and reach below a wildcard, which is one label
    deep for the TLS terminator.
    """
    own = listener.hostname
    inside = [host for host in file.hosts if host != own and hostnames.covers(own, host)]
    if not inside:
        return ()
    beside = (one.hostname for one in others if one.port == listener.port)
    narrower = [hostname for hostname in beside if hostname != own and hostnames.covers(own, hostname)]
    return [host for host in inside if not any(hostnames.covers(one, host) for one in narrower)]


def _port(port: int, certified: dict[str, dict[str, None]], clients: ClientAuthorities | None) -> wire.TlsPort:
    shown = wire.ClientValidation(clients.file.name, clients.insecure) if clients and clients.file else None
    return wire.TlsPort(port, tuple(wire.Certificate(file, tuple(names)) for file, names in certified.items()), shown)


def _secured(
    listener: ValidatedListener, certified: Certified, clients: ClientAuthorities | None, quota: Quota
) -> tuple[ValidatedListener, tuple[File, ...]]:
    problems = [*certified.problems, *(clients.problems if clients else ())]
    rejected = listener.rejected or (clients.rejected if clients else None)
    files: tuple[File, ...] = ()
    if rejected is None:
        needed = clients.file if clients else None
        files = tuple(file for file in certified.files if quota.charge(file, needed, listener.hostname))
        if len(files) < len(certified.files):
            left = f"{len(files)} of {len(certified.files)} certificates are within the quota of the Gateway"
            problems.append(Problem("InvalidCertificateRef", f"{left}; use another Gateway for some of them"))
    unserved = None if files or rejected else Problem("Invalid", joined(problems))
    found = [*problems, *([listener.unresolved] if listener.unresolved else ())]
    return structs.replace(listener, rejected=rejected, unserved=unserved, unresolved=summary(found)), files
