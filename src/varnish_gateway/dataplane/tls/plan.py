"""What HAProxy should serve, and the steps from what it serves now.

In:   ir.Tls, the ports, and the present plan.
Out:  a TlsPlan, and the problems with the rest. An unusable certificate leaves its slot as it is, or out.
Unusable authorities leave their port as it is, or closed. A plain port needs nothing but itself.
No I/O but the check of certificates, which OpenSSL does in a file.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from varnish_gateway import errors
from varnish_gateway.dataplane.process.port_owners import TerminatorPort
from varnish_gateway.dataplane.process.sockets import Socket
from varnish_gateway.dataplane.tls import openssl
from varnish_gateway.emit import haproxy
from varnish_gateway.emit.haproxy import Bind, Clients, Slot
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir import Tls, wire
from varnish_gateway.translate.tls import blocks

_SERVER_NAME = re.compile(r"\*|(\*\.)?[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?")

Check = Callable[[bytes], None]
"""Raises BadDocument for a certificate and key that OpenSSL rejects."""


class TlsPlan(Struct, frozen=True):
    """``lists`` are the slots of each port in their order, ``files`` the contents of slots and of authorities."""

    binds: tuple[Bind, ...] = ()
    lists: Mapping[int, tuple[Slot, ...]] = {}
    files: Mapping[str, bytes] = {}

    @property
    def ports(self) -> set[int]:
        return {bind.port for bind in self.binds}

    @property
    def tls(self) -> Tls:
        """The TLS that results in exactly this plan."""
        slots = {slot.name for listed in self.lists.values() for slot in listed}
        stored = {name: f"{content_hash(self.files[name])}.pem" if name in slots else name for name in self.files}
        ports = (
            wire.TlsPort(
                port=bind.port,
                certificates=tuple(
                    wire.Certificate(file=stored[slot.name], names=slot.names) for slot in self.lists[bind.port]
                ),
                clients=None if bind.clients is None else wire.ClientValidation(*bind.clients),
            )
            for bind in self.binds
            if bind.is_tls
        )
        return Tls(tuple(ports), {stored[name]: content for name, content in self.files.items()})

    def __repr__(self) -> str:
        return f"TlsPlan({self.binds})"  # never the content of files

    def of(self, port: int) -> "TlsPlan":
        """Return the part of one port."""
        binds = tuple(bind for bind in self.binds if bind.port == port)
        listed = self.lists.get(port, ())
        names = [*(slot.name for slot in listed), *(bind.clients.file for bind in binds if bind.clients)]
        return TlsPlan(binds, {port: listed} if listed else {}, {name: self.files[name] for name in names})


def united(plans: Iterable[TlsPlan]) -> TlsPlan:
    """Return one plan of plans whose ports differ."""
    parts = list(plans)
    return TlsPlan(
        tuple(bind for part in parts for bind in part.binds),
        {port: listed for part in parts for port, listed in part.lists.items()},
        {name: content for part in parts for name, content in part.files.items()},
    )


def without_reload(before: TlsPlan, desired: TlsPlan, most_bytes: int) -> TlsPlan:
    """Return what HAProxy can serve of the desired plan without a reload: small new certificates of present ports."""
    ports = [bind.port for bind in before.binds]
    return united(_without_large(before.of(port), desired.of(port), port, most_bytes) for port in ports)


def _without_large(before: TlsPlan, desired: TlsPlan, port: int, most_bytes: int) -> TlsPlan:
    """Return a port with its new certificates but for large ones; as it is where it changes in another way.

    The former certificate stays where a large one comes. Where that has new names, all former ones stay: some of the
    names may be theirs.
    """
    if before.binds != desired.binds or port not in before.lists:
        return before
    filled: dict[Slot, bytes] = {}
    former = before.lists[port]
    for slot in desired.lists[port]:
        old, new = before.files.get(slot.name), desired.files[slot.name]
        if old == new or len(new) <= most_bytes:
            filled[slot] = new
        elif old is not None:
            filled[slot] = old
    if len(filled) < len(desired.lists[port]):
        filled = {**filled, **{slot: before.files[slot.name] for slot in former if slot not in filled}}
    clients = {bind.clients.file: before.files[bind.clients.file] for bind in before.binds if bind.clients}
    return TlsPlan(before.binds, {port: tuple(filled)}, {slot.name: new for slot, new in filled.items()} | clients)


def changes_validation(before: TlsPlan, desired: TlsPlan) -> bool:
    """Whether a port that has TLS, and keeps it, begins or ends to validate its clients, or to accept others."""
    modes = {bind.port: _mode(bind) for bind in before.binds if bind.is_tls}
    return any(modes.get(bind.port, _mode(bind)) != _mode(bind) for bind in desired.binds if bind.is_tls)


def _mode(bind: Bind) -> bool | None:
    return bind.clients.insecure if bind.clients is not None else None


class PlanSteps(NamedTuple):
    """The changes from one plan to another while HAProxy serves."""

    replaced: tuple[str, ...]
    added: tuple[tuple[int, Slot], ...]
    removed: tuple[tuple[int, Slot], ...]


def steps(before: TlsPlan, after: TlsPlan, most_bytes: int) -> PlanSteps | None:
    """Return the steps, None where HAProxy has to read everything again."""
    if before.binds != after.binds:
        return None
    old = {slot.name: (port, slot) for port, slots in before.lists.items() for slot in slots}
    new = {slot.name: (port, slot) for port, slots in after.lists.items() for slot in slots}
    added = [slot for name, slot in new.items() if name not in old]
    replaced = [name for name in new if name in old and before.files[name] != after.files[name]]
    changed = [*replaced, *(slot.name for _, slot in added)]
    if any(len(after.files[name]) > most_bytes for name in changed):
        return None
    return PlanSteps(tuple(replaced), tuple(added), tuple(slot for name, slot in old.items() if name not in new))


class TlsPlanner:
    """Checks each certificate once and remembers the result."""

    def __init__(self, check: Check, addresses: Callable[[Socket], tuple[str, ...]]) -> None:
        self._check = check
        self._addresses = addresses
        self._cleaned: dict[str, bytes | errors.BadDocument] = {}

    def plan(
        self, tls: Tls, ports: Iterable[TerminatorPort], before: TlsPlan
    ) -> tuple[TlsPlan, list[errors.TlsRejected]]:
        """Return what can be served, and the problems with the rest."""
        building = _PlanBuilder(before)
        with_tls = {port.port: port for port in tls.ports if port.certificates}
        for socket, behind in ports:
            bind = Bind(socket.port, self._addresses(socket), behind, is_tls=socket.tls)
            if not socket.tls:
                building.binds.append(bind)
            elif (port := with_tls.get(socket.port)) is not None:
                self._add(port, bind, tls.files, building)
        used = {content_hash(content) for content in tls.files.values()}
        self._cleaned = {mark: cleaned for mark, cleaned in self._cleaned.items() if mark in used}
        return TlsPlan(tuple(building.binds), building.lists, building.files), building.problems

    def _add(self, port: wire.TlsPort, bind: Bind, files: Mapping[str, bytes], building: "_PlanBuilder") -> None:
        pairs = {one: self._usable(port.port, one, files, building) for one in port.certificates}
        clients = self._clients(port, files, building)
        if isinstance(clients, errors.BadDocument):
            building.problems.append(errors.TlsRejected(f"authorities of clients on port {port.port}: {clients}"))
            building.keep(port.port)
            return
        filled: dict[Slot, bytes] = {}
        for slot, certificate in haproxy.slots(port.port, port.certificates):
            content = pairs[certificate] or building.before.files.get(slot.name)
            if content is not None:
                filled[slot] = content
        if filled:
            default = haproxy.default_slot(port.port)
            filled = {default: next(iter(filled.values())), **filled}
            building.binds.append(bind._replace(clients=clients))
            building.lists[port.port] = tuple(filled)
            building.files |= {slot.name: content for slot, content in filled.items()}

    def _usable(
        self, port: int, certificate: wire.Certificate, files: Mapping[str, bytes], building: "_PlanBuilder"
    ) -> bytes | None:
        """Return a certificate with its key; add a problem and return None if it can't be used."""
        if invalid := [name for name in certificate.names if not _SERVER_NAME.fullmatch(name)]:
            reason = f"is for {invalid[0]!r}, which is not a hostname"
        elif certificate.file not in files:
            reason = f"is not there ({certificate.file})"
        else:
            try:
                return self._pair(files[certificate.file])
            except errors.BadDocument as error:
                reason = str(error)
        names = ", ".join(certificate.names)
        building.problems.append(errors.TlsRejected(f"certificate of {names} on port {port} {reason}"))
        return None

    def _clients(
        self, port: wire.TlsPort, files: Mapping[str, bytes], building: "_PlanBuilder"
    ) -> Clients | errors.BadDocument | None:
        if port.clients is None:
            return None
        try:
            content = blocks.clean_authorities(files[port.clients.file])
            openssl.check_authorities(content)
        except KeyError:
            return errors.BadDocument("the file is not there")
        except errors.BadDocument as error:
            return error
        name = f"{content_hash(content)}.ca.pem"
        building.files[name] = content
        return Clients(name, port.clients.insecure)

    def _pair(self, content: bytes) -> bytes:
        """Return a certificate with its key as HAProxy reads it; raise BadDocument if it can't be used."""
        mark = content_hash(content)
        if mark not in self._cleaned:
            try:
                cleaned = blocks.clean_pair(content)
                self._check(cleaned)
                self._cleaned[mark] = cleaned
            except errors.BadDocument as error:
                self._cleaned[mark] = error
        found = self._cleaned[mark]
        if isinstance(found, errors.BadDocument):
            raise found
        return found


class _PlanBuilder:
    """A plan in progress."""

    def __init__(self, before: TlsPlan) -> None:
        self.before = before
        self.binds: list[Bind] = []
        self.lists: dict[int, tuple[Slot, ...]] = {}
        self.files: dict[str, bytes] = {}
        self.problems: list[errors.TlsRejected] = []

    def keep(self, port: int) -> None:
        """Leave a whole port as it is; one that is closed, or without TLS, stays closed."""
        kept = self.before.of(port)
        if kept.lists:
            self.binds += kept.binds
            self.lists.update(kept.lists)
            self.files.update(kept.files)
