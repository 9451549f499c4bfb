"""The sockets that varnishd opens, as VARNISH_LISTEN names them.

In:   ``name=address:port,proto;…`` (the name may be left out), or VARNISH_HTTP_ADDR.
Out:  Socket values; the reload socket is always among them.
Pure. ``https`` entries are kept apart: their ports are HAProxy's, and varnishd gets a Unix
socket of the same name for each.
"""

import re
from pathlib import PurePath
from typing import NamedTuple, Self

from varnish_gateway import errors
from varnish_gateway.emit.haproxy import proxy_socket

RELOAD_SOCKET = "ghost-reload"
RELOAD_PORT = 1969
TLS_PREFIX = "https-"
"""ghost knows by a socket's name that TLS ended before it."""
LONGEST_DIRECTORY = 107 - len("/tls/admin-99999.sock")
"""A Unix socket's path has 107 bytes at most, and this is the longest of those that we make."""
_TLS_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*):[0-9]{1,5}")


class Socket(NamedTuple):
    """One -a argument. ``address`` is ``host:port`` or the path of a Unix socket."""

    name: str
    address: str
    protocols: tuple[str, ...] = ("http",)

    @property
    def argument(self) -> str:
        return f"{self.name}={','.join((self.address, *self.protocols))}"

    @property
    def port(self) -> int:
        """The TCP port, 0 for a Unix socket or a free port."""
        port = self.address.rpartition(":")[2]
        return int(port) if port.isdigit() else 0

    @property
    def tls(self) -> bool:
        return "https" in self.protocols

    @property
    def is_unix(self) -> bool:
        return self.address.startswith("/")


class Sockets(NamedTuple):
    """What varnishd serves itself, and what HAProxy serves before it."""

    plain: tuple[Socket, ...]
    tls: tuple[Socket, ...] = ()

    @property
    def reload(self) -> Socket:
        return next(socket for socket in self.plain if socket.name == RELOAD_SOCKET)

    @classmethod
    def of(cls, sockets: tuple[Socket, ...]) -> Self:
        """Split by who serves, and add the reload socket where it is missing."""
        plain = tuple(socket for socket in sockets if not socket.tls)
        if all(socket.name != RELOAD_SOCKET for socket in plain):
            plain = (Socket(RELOAD_SOCKET, f"127.0.0.1:{RELOAD_PORT}"), *plain)
        return cls(plain, tuple(socket for socket in sockets if socket.tls))

    def of_varnishd(self, directory: PurePath, account: str | None) -> tuple[Socket, ...]:
        """Return what varnishd opens; for HAProxy Unix sockets in the directory that only its account may use."""
        if self.tls and len(bytes(directory)) > LONGEST_DIRECTORY:
            raise errors.BadSettings(
                f"WORK_DIR: {directory} is too long for the Unix sockets that https needs;"
                f" choose one of at most {LONGEST_DIRECTORY} bytes"
            )
        options = ("PROXY", *((f"user={account}",) if account else ()), "mode=0600")
        behind = (Socket(socket.name, str(directory / proxy_socket(socket.port)), options) for socket in self.tls)
        return (*self.plain, *behind)


def parse_listen(value: str) -> Sockets:
    """Parse VARNISH_LISTEN; raise BadSettings that names the entry and its form."""
    sockets = tuple(_parse_entry(entry.strip()) for entry in value.split(";") if entry.strip())
    names = [socket.name for socket in sockets]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise errors.BadSettings(f"VARNISH_LISTEN: socket name {duplicates[0]} occurs twice; give each its own name")
    ports = [socket.port for socket in sockets if socket.tls]
    if twice := sorted({port for port in ports if ports.count(port) > 1}):
        raise errors.BadSettings(
            f"VARNISH_LISTEN: port {twice[0]} occurs twice among https sockets, whose ports name their files;"
            f" write one for all addresses, e.g. {TLS_PREFIX}{twice[0]}=:{twice[0]},https"
        )
    return Sockets.of(sockets)


def parse_http_address(value: str) -> Sockets:
    """Parse VARNISH_HTTP_ADDR, which stands for VARNISH_LISTEN with one socket."""
    return Sockets.of((_parse_entry(value.strip(), variable="VARNISH_HTTP_ADDR"),))


def _parse_entry(entry: str, variable: str = "VARNISH_LISTEN") -> Socket:
    before, _, after = entry.partition("=")
    named = after and "," not in before  # else the "=" belongs to an option such as mode=666
    address, *options = [part.strip() for part in (after if named else entry).split(",")]
    _check_address(address, entry, variable)
    protocols = tuple(option.lower() if option.lower() in ("http", "https") else option for option in options)
    protocols = protocols or ("http",)
    port_or_file = address.rpartition("/" if address.startswith("/") else ":")[2]
    socket = Socket(before.strip() if named else f"{protocols[0].lower()}-{port_or_file}", address, protocols)
    if socket.tls:
        _check_tls(socket, entry, variable)
    return socket


def _check_address(address: str, entry: str, variable: str) -> None:
    if address.startswith(("/", "@")):
        return
    port = address.rpartition(":")[2]
    if ":" not in address or not port.isdigit() or int(port) > 65535:
        raise errors.BadSettings(
            f"{variable}: {entry!r} has no address and port; write name=address:port,http, e.g. http-80=:80,http"
        )


def _check_tls(socket: Socket, entry: str, variable: str) -> None:
    """HAProxy takes fewer forms than varnishd, and its port names the files that belong to it."""
    if not _TLS_ADDRESS.fullmatch(socket.address) or socket.port == 0:
        raise errors.BadSettings(
            f"{variable}: {entry!r} has no address and port for https; write name=address:port,https,"
            " e.g. https-443=:443,https"
        )
    if not socket.name.startswith(TLS_PREFIX):
        raise errors.BadSettings(
            f"{variable}: {entry!r}: the name of an https socket begins with {TLS_PREFIX},"
            f" else its requests count as plain HTTP; write {TLS_PREFIX}{socket.port}={socket.address},https"
        )
