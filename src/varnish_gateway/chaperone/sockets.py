"""The sockets that varnishd opens, as VARNISH_LISTEN names them.

In:   ``name=address:port,proto;…`` (the name may be left out), or VARNISH_HTTP_ADDR.
Out:  Socket values; the reload socket is always among them.
Pure. ``https`` entries are kept apart: varnishd does not terminate TLS.
"""

from typing import NamedTuple, Self

from varnish_gateway import errors

RELOAD_SOCKET = "ghost-reload"
RELOAD_PORT = 1969


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


class Sockets(NamedTuple):
    """What is served, and what is named but not served yet."""

    served: tuple[Socket, ...]
    unserved: tuple[Socket, ...] = ()

    @property
    def reload(self) -> Socket:
        return next(socket for socket in self.served if socket.name == RELOAD_SOCKET)

    @classmethod
    def of(cls, sockets: tuple[Socket, ...]) -> Self:
        """Split by what varnishd can serve, and add the reload socket where it is missing."""
        served = tuple(socket for socket in sockets if not socket.tls)
        if all(socket.name != RELOAD_SOCKET for socket in served):
            served = (Socket(RELOAD_SOCKET, f"127.0.0.1:{RELOAD_PORT}"), *served)
        return cls(served, tuple(socket for socket in sockets if socket.tls))


def parse_listen(value: str) -> Sockets:
    """Parse VARNISH_LISTEN; raise BadSettings that names the entry and its form."""
    sockets = tuple(_parse_entry(entry.strip()) for entry in value.split(";") if entry.strip())
    names = [socket.name for socket in sockets]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise errors.BadSettings(f"VARNISH_LISTEN: socket name {duplicates[0]} occurs twice; give each its own name")
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
    if named:
        return Socket(before.strip(), address, protocols)
    port_or_file = address.rpartition("/" if address.startswith("/") else ":")[2]
    return Socket(f"{protocols[0].lower()}-{port_or_file}", address, protocols)


def _check_address(address: str, entry: str, variable: str) -> None:
    if address.startswith(("/", "@")):
        return
    port = address.rpartition(":")[2]
    if ":" not in address or not port.isdigit() or int(port) > 65535:
        raise errors.BadSettings(
            f"{variable}: {entry!r} has no address and port; write name=address:port,http, e.g. http-80=:80,http"
        )
