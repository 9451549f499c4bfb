"""The sockets that varnishd opens, as VARNISH_LISTEN names them.

In:   ``name=address:port,proto;…`` (the name may be left out), or VARNISH_HTTP_ADDR.
Out:  Socket values; the reload socket is always among them.
Pure. ``https`` entries are kept apart: the TLS terminator opens their ports, and varnishd opens a
Unix socket of the same name for each.
"""

import re
from pathlib import PurePath
from typing import NamedTuple, Self

from varnish_gateway import errors
from varnish_gateway.ir.reserved import (
    LATER,
    PLAIN_SCHEME,
    RELOAD_PORT,
    RELOAD_SOCKET,
    TLS_SCHEME,
    later_socket,
    proxy_socket,
    socket_name,
)

TLS_PREFIX = socket_name(TLS_SCHEME, "")
LONGEST_DIRECTORY = 107 - len("/tls/admin-99999-0123456789.sock")
"""A Unix socket's path has at most 107 bytes; the TLS terminator's admin socket has the longest one."""
_LATER_NAMES = frozenset(socket_name(scheme, LATER) for scheme in (PLAIN_SCHEME, TLS_SCHEME))
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
        return TLS_SCHEME in self.protocols

    @property
    def is_unix(self) -> bool:
        return self.address.startswith("/")

    @property
    def can_open_later(self) -> bool:
        """Whether the TLS terminator can open it while varnishd runs: ghost knows it by scheme and port alone."""
        scheme = self.protocols[0]
        return self.protocols in ((PLAIN_SCHEME,), (TLS_SCHEME,)) and self.name == socket_name(scheme, self.port)


class Sockets(NamedTuple):
    """The sockets that varnishd opens, and those that the TLS terminator opens.

    ``later``: varnishd also opens the two sockets for ports that open while it runs.
    """

    plain: tuple[Socket, ...]
    tls: tuple[Socket, ...] = ()
    later: bool = False

    @property
    def reload(self) -> Socket:
        return next(socket for socket in self.plain if socket.name == RELOAD_SOCKET)

    @classmethod
    def of(cls, sockets: tuple[Socket, ...]) -> Self:
        """Split by the program that opens them; add the reload socket where it is missing."""
        plain = tuple(socket for socket in sockets if not socket.tls)
        if all(socket.name != RELOAD_SOCKET for socket in plain):
            plain = (Socket(RELOAD_SOCKET, f"127.0.0.1:{RELOAD_PORT}"), *plain)
        return cls(plain, tuple(socket for socket in sockets if socket.tls))

    def of_varnishd(self, directory: PurePath, proxy_user: str | None) -> tuple[Socket, ...]:
        """Return what varnishd opens. TLS ports become Unix sockets in the directory for ``proxy_user`` alone."""
        if self.tls and not fits(directory):
            raise errors.BadSettings(
                f"WORK_DIR: {directory} is too long for the Unix sockets that https needs;"
                f" choose one of at most {LONGEST_DIRECTORY} bytes"
            )
        options = ("PROXY", *((f"user={proxy_user}",) if proxy_user else ()), "mode=0600")
        files = {socket.name: proxy_socket(socket.port) for socket in self.tls}
        if self.later:
            files |= {socket_name(scheme, LATER): later_socket(scheme) for scheme in (PLAIN_SCHEME, TLS_SCHEME)}
        return (*self.plain, *(Socket(name, str(directory / file), options) for name, file in files.items()))


def fits(directory: PurePath) -> bool:
    """Whether the paths of Unix sockets in a directory are short enough."""
    return len(bytes(directory)) <= LONGEST_DIRECTORY


def parse_listen(value: str) -> Sockets:
    """Parse VARNISH_LISTEN; raise BadSettings that names the entry and its form."""
    sockets = tuple(_parse_entry(entry.strip()) for entry in value.split(";") if entry.strip())
    names = [socket.name for socket in sockets]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise errors.BadSettings(f"VARNISH_LISTEN: socket name {duplicates[0]} occurs twice; give each its own name")
    if reserved := sorted(_LATER_NAMES.intersection(names)):
        raise errors.BadSettings(f"VARNISH_LISTEN: the socket name {reserved[0]} is reserved; choose another one")
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
    protocols = tuple(option.lower() if option.lower() in ("http", TLS_SCHEME) else option for option in options)
    protocols = protocols or ("http",)
    port_or_file = address.rpartition("/" if address.startswith("/") else ":")[2]
    name = before.strip() if named else socket_name(protocols[0].lower(), port_or_file)
    socket = Socket(name, address, protocols)
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
    """Reject forms that only varnishd takes; the port also names the TLS terminator's files."""
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
