"""What TLS is terminated with on the listeners of one Gateway.

In:   listeners as they were judged, each with the tls of its spec and its owner, and what
      clients have to show.
Out:  Secured: the listeners with their conditions completed, and Material, the files by
      listener. ``assemble`` makes ir.Tls of it for those that are served.

One good certificate is enough for a listener to be served. Material is apart from the listeners,
because routes look at those: a certificate that is rotated is no business of theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field, structs

from varnish_gateway import ir
from varnish_gateway.ir import wire
from varnish_gateway.translate import hostnames
from varnish_gateway.translate.conditions import Problem, joined, summary
from varnish_gateway.translate.tls import certificates, client_validation
from varnish_gateway.translate.tls.client_validation import Clients
from varnish_gateway.translate.tls.pem import File

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from varnish_gateway.api.gateway_networking import Frontend, ListenerTls
    from varnish_gateway.translate.gateway.listeners import Listener
    from varnish_gateway.translate.grants import Owner
    from varnish_gateway.translate.incremental.view import View

ENTRY_BYTES = 60
"""What tls.json says about a certificate and each of its names, beside the name."""


class Asked(NamedTuple):
    """A listener, what its spec says about TLS, and the object that it is a part of."""

    listener: Listener
    tls: ListenerTls | None
    owner: Owner


class Material(Struct, frozen=True):
    certificates: dict[str, tuple[File, ...]] = field(default_factory=dict)  # by listener
    clients: dict[int, Clients] = field(default_factory=dict)  # by port


class Secured(NamedTuple):
    listeners: tuple[Listener, ...]
    material: Material


def secure(asked: Sequence[Asked], frontend: Frontend, gateway: Owner, view: View, limit: int | None) -> Secured:
    """Return the listeners of a Gateway with what they serve TLS with; the first ones have room first."""
    ports = sorted({one.listener.port for one in asked if one.listener.scheme == "https"})
    resolved = {port: client_validation.resolve(frontend.validation(port), gateway, view) for port in ports}
    clients = {port: found for port, found in resolved.items() if found is not None}
    room = Room(limit)
    secured: list[Listener] = []
    files: dict[str, tuple[File, ...]] = {}
    for one in asked:
        listener = one.listener
        if listener.scheme == "https":
            listener, taken = _secured(one, clients.get(listener.port), room, view)
            files[listener.id] = taken
        secured.append(listener)
    return Secured(tuple(secured), Material(files, clients))


def assemble(listeners: Iterable[Listener], material: Material) -> ir.Tls:
    """Return the TLS of the listeners that are served.

    A port's first certificate is that of the listener for any hostname, or of the first listener.
    """
    named: dict[int, dict[str, dict[str, None]]] = {}
    files: dict[str, bytes] = {}
    secure = [listener for listener in listeners if listener.scheme == "https"]
    for listener in sorted(secure, key=lambda listener: listener.hostname != hostnames.ANY):
        for file in material.certificates[listener.id]:
            names = named.setdefault(listener.port, {}).setdefault(file.name, {})
            names.update(dict.fromkeys((listener.hostname, *_own_hosts(file, listener, secure))))
            files[file.name] = file.text
    validations = {port: clients for port, clients in material.clients.items() if port in named}
    files.update({clients.file.name: clients.file.text for clients in validations.values() if clients.file})
    ports = (_port(port, certified, validations.get(port)) for port, certified in sorted(named.items()))
    return ir.Tls(tuple(ports), files)


def _own_hosts(file: File, listener: Listener, others: Iterable[Listener]) -> Sequence[str]:
    """Return those host names of a certificate for which its listener is the one that takes requests.

    They tell the certificates of one listener apart, and reach below a wildcard, which is one label
    deep for whoever selects certificates.
    """
    own = listener.hostname
    inside = [host for host in file.hosts if host != own and hostnames.covers(own, host)]
    if not inside:
        return ()
    beside = (one.hostname for one in others if one.port == listener.port)
    narrower = [hostname for hostname in beside if hostname != own and hostnames.covers(own, hostname)]
    return [host for host in inside if not any(hostnames.covers(one, host) for one in narrower)]


def _port(port: int, certified: dict[str, dict[str, None]], clients: Clients | None) -> wire.TlsPort:
    shown = wire.ClientValidation(clients.file.name, clients.insecure) if clients and clients.file else None
    return wire.TlsPort(port, tuple(wire.Certificate(file, tuple(names)) for file, names in certified.items()), shown)


def _secured(one: Asked, clients: Clients | None, room: Room, view: View) -> tuple[Listener, tuple[File, ...]]:
    listener = one.listener
    certified = certificates.resolve(one.tls, one.owner, view)
    problems = [*certified.problems, *(clients.problems if clients else ())]
    refused = listener.refused or (clients.refused if clients else None)
    files: tuple[File, ...] = ()
    if refused is None:
        needed = clients.file if clients else None
        files = tuple(file for file in certified.files if room.take(file, needed, listener.hostname))
        if len(files) < len(certified.files):
            left = f"of {len(certified.files)} certificates {len(files)} have room beside those of other listeners"
            problems.append(Problem("InvalidCertificateRef", f"{left}; use another Gateway for some of them"))
    unserved = None if files or refused else Problem("Invalid", joined(problems))
    found = [*problems, *([listener.unresolved] if listener.unresolved else ())]
    return structs.replace(listener, refused=refused, unserved=unserved, unresolved=summary(found)), files


class Room:
    """The room in the one object that carries all files of a Gateway."""

    def __init__(self, limit: int | None) -> None:
        self._left = limit
        self._taken: set[str] = set()

    def fill(self, listeners: Iterable[Listener], material: Material) -> frozenset[str]:
        """Have room for the files of listeners; return the ids of those for which there was not enough."""
        crowded = set()
        for listener in listeners:
            clients = material.clients.get(listener.port)
            for file in material.certificates.get(listener.id, ()):
                if not self.take(file, clients.file if clients else None, listener.hostname):
                    crowded.add(listener.id)
        return frozenset(crowded)

    def take(self, file: File, needed: File | None, hostname: str) -> bool:
        """Have room for a file, and for another one that it is nothing without; say whether there was."""
        new = {one.name: len(one.text) for one in (file, needed) if one and one.name not in self._taken}
        if self._left is not None:
            names = {hostname, *(host for host in file.hosts if hostnames.covers(hostname, host))}
            left = self._left - sum(new.values()) - sum(ENTRY_BYTES + len(name) for name in names)
            if left < 0:
                return False
            self._left = left
        self._taken.update(new)
        return True
