"""haproxy.cfg and its crt-lists: HAProxy terminates TLS in front of varnishd.

In:   the ports with TLS, those that opened while varnishd runs, and what the machine allows.
Out:  texts. They hold names of files, ports and server names, never a key.
Pure. One text for HAProxy 2.6 and later; docs/concepts/tls-termination.md explains the values.

A certificate has a slot: a name that HAProxy knows it by, and that stays when its content is
replaced. Which slots there are follows from server names alone, so a rotation touches one slot.
A slot is one line of a list; a certificate with more server names than fit has several.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir import wire
from varnish_gateway.ir.reserved import PLAIN_SCHEME, TLS_DIRECTORY, TLS_SCHEME, socket_name

DIRECTORY = TLS_DIRECTORY
"""Where the files lie, below HAProxy's working directory: all names are relative, so none needs quotes."""
CONFIG = "haproxy.cfg"
BUFFER_BYTES = 40960
"""varnishd takes heads of 32 KB; it decides about those, not HAProxy, which needs some room of its own."""
MOST_NAMES, MOST_NAME_BYTES = 500, 30_000
"""Of one slot. HAProxy takes 2048 words and 64 KB in a line, and at run time what fits into a buffer."""
KEEP_ALIVE_SECONDS = 15
"""Less than what a drain has left after its delay: a drain cuts no idle connection."""
FINISH_SECONDS = 600
"""How long a worker may finish what it has after a reload: downloads, WebSockets. A drain may be longer."""
MOST_FORMER_WORKERS = 8
"""Each costs memory for as long as it finishes."""

_CIPHERS = ":".join(
    f"ECDHE-{kind}-{cipher}"
    for cipher in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305")
    for kind in ("ECDSA", "RSA")
)
_SUITES = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
_CURVES = "X25519:P-256:P-384"
_PROXY = "send-proxy-v2 proxy-v2-options ssl,cert-cn,ssl-cipher,authority"


class Slot(NamedTuple):
    """A certificate's place in the list of a port, for some server names: no more than a line holds."""

    name: str
    names: tuple[str, ...]


class Clients(NamedTuple):
    """The authorities of client certificates, by file; ``insecure`` accepts every client."""

    file: str
    insecure: bool = False


class Bind(NamedTuple):
    """A port, and the Unix socket of varnishd ``behind`` it, by file. Without TLS it has no certificates."""

    port: int
    addresses: tuple[str, ...]
    behind: str
    clients: Clients | None = None
    is_tls: bool = True


class Machine(NamedTuple):
    """What HAProxy may use. Started by root its worker becomes ``account``."""

    connections: int
    threads: int
    account: str | None = None


def list_file(port: int) -> str:
    return f"{port}.list"


def default_slot(port: int) -> Slot:
    """Return the slot for clients that name no known server. It can be replaced but never removed."""
    return Slot(f"{port}.default.pem", ("*",))


def slots(port: int, certificates: Sequence[wire.Certificate]) -> list[tuple[Slot, wire.Certificate]]:
    """Return the slots of a port in their order, each with its certificate. The first is the default."""
    first = certificates[0]
    filled = [(default_slot(port), first)]
    seen: Counter[str] = Counter()
    for certificate in certificates:
        for names in _portions(name for name in certificate.names if certificate is not first or name != "*"):
            mark = content_hash(" ".join(names).encode())
            filled.append((Slot(f"{port}.{mark}.{seen[mark]}.pem", names), certificate))
            seen[mark] += 1
    return filled


def _portions(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Cut names into what a slot holds."""
    portion: list[str] = []
    size = 0
    for name in names:
        if portion and (len(portion) == MOST_NAMES or size + len(name) >= MOST_NAME_BYTES):
            yield tuple(portion)
            portion, size = [], 0
        portion.append(name)
        size += len(name) + 1
    if portion:
        yield tuple(portion)


def list_line(slot: Slot) -> str:
    """Return a line of a crt-list; HAProxy looks for names in the certificate only where there are none."""
    return f"{DIRECTORY}/{slot.name} {' '.join(slot.names)}"


def crt_list(in_order: Iterable[Slot]) -> str:
    return "".join(f"{list_line(slot)}\n" for slot in in_order)


def admin_socket(number: int, secret: str) -> str:
    """Return the admin socket of a worker.

    Each configuration has its own: workers of before and after a reload share a socket of the same
    name for a moment, and the first to accept would get the commands. The name is a secret: a backend of
    user VCL can have the path of any Unix socket, and Landlock doesn't keep varnishd from connecting.
    """
    return f"admin-{number}-{secret}.sock"


def master_socket(secret: str) -> str:
    """Return the socket of HAProxy's master process."""
    return f"master-{secret}.sock"


def finish_seconds(drain_seconds: float) -> int:
    """Return how long a worker may finish what it has after a reload."""
    return max(FINISH_SECONDS, math.ceil(drain_seconds))


def config(binds: Iterable[Bind], machine: Machine, admin: str, drain_seconds: float = 0) -> str:
    """Return haproxy.cfg, one of a series: each has its own admin socket."""
    account = f"  user {machine.account}\n  group {machine.account}\n" if machine.account else ""
    head = f"""\
global
  stats socket unix@{DIRECTORY}/{admin} mode 600 level admin
  stats timeout 1m
{account}  maxconn {machine.connections}
  nbthread {machine.threads}
  noreuseport
  hard-stop-after {finish_seconds(drain_seconds)}s
  mworker-max-reloads {MOST_FORMER_WORKERS}
  tune.bufsize {BUFFER_BYTES}
  tune.http.maxhdr 128
  tune.h2.max-concurrent-streams 100
.if version_atleast(3.0)
  tune.h2.fe.glitches-threshold 1000
.endif
  tune.ssl.cachesize 0
  ssl-load-extra-files none
  ssl-default-bind-options ssl-min-ver TLSv1.2 prefer-client-ciphers
  ssl-default-bind-ciphers {_CIPHERS}
  ssl-default-bind-ciphersuites {_SUITES}
  ssl-default-bind-curves {_CURVES}

defaults
  mode http
  option idle-close-on-response
  http-reuse never
  timeout connect 5s
  timeout http-request 10s
  timeout http-keep-alive {KEEP_ALIVE_SECONDS}s
  timeout client 60s
  timeout server 1h
  timeout tunnel 1h
"""
    return head + "".join(map(_port, binds))


def _port(bind: Bind) -> str:
    """Return the sections of a port.

    ghost reads the port from the PROXY header. HAProxy would write the port from before a DNAT of the same
    machine, such as that of a NodePort.
    """
    name = socket_name(TLS_SCHEME if bind.is_tls else PLAIN_SCHEME, bind.port)
    return f"""
frontend {name}
  bind {",".join(bind.addresses)} v6only{_tls(bind) if bind.is_tls else ""}
  tcp-request connection set-dst-port int({bind.port})
  default_backend {name}

backend {name}
  server varnishd unix@{bind.behind} {_PROXY}
"""


def _tls(bind: Bind) -> str:
    return f" ssl crt-list {DIRECTORY}/{list_file(bind.port)} alpn h2,http/1.1{_verify(bind.clients)}"


def _verify(clients: Clients | None) -> str:
    """Return how a port validates clients. A resumed session skips it, so there are no tickets and no cache."""
    if clients is None:
        return ""
    how = "optional ca-ignore-err all crt-ignore-err all" if clients.insecure else "required"
    return f" no-tls-tickets verify {how} ca-file {DIRECTORY}/{clients.file}"
