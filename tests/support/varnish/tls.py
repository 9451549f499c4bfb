"""Certificates made when a test asks for them, and a data plane that terminates TLS with them.

In:   server names, authorities.
Out:  ir.Tls, contexts for clients, a running DataPlane with an https socket.
"""

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from loopback import free_port
from support.certificates import Issued, curve_key, issued
from support.http.client import Port, Secure, connect
from support.varnish.dataplane import endpoints, must_serve, routing, running
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import Tls, wire


class Pair(NamedTuple):
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes

    @property
    def content(self) -> bytes:
        return self.certificate + self.key

    @property
    def parsed(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.certificate)

    @property
    def der(self) -> bytes:
        return ssl.PEM_cert_to_DER_cert(self.certificate.decode())


def make_pair(name: str, *names: str, kind: str = "ec", issuer: Pair | None = None, days: int = 30) -> Pair:
    """Make a certificate for names, self-signed if it has no issuer; one of -1 days expired yesterday."""
    by = None if issuer is None else Issued(issuer.parsed, load_pem_private_key(issuer.key, None))
    made = issued(
        name,
        by=by,
        key=curve_key() if kind == "ec" else rsa.generate_private_key(65537, int(kind[3:])),
        is_authority=by is None,
        hosts=(name, *names),
        until=datetime.now(UTC) + timedelta(days=days),
    )
    return Pair(made.own, made.private)


def pair(name: str, number: int = 0, kind: str = "ec") -> Pair:
    """Return a certificate for a name, the same one for the same number."""
    return _numbered_pair(name, number, kind)


@cache
def _numbered_pair(name: str, number: int, kind: str) -> Pair:
    del number
    return make_pair(name, kind=kind)


@cache
def authority(name: str) -> Pair:
    return make_pair(name)


@cache
def client_pair(authority_name: str) -> Pair:
    return make_pair(f"client of {authority_name}".replace(" ", "-"), issuer=authority(authority_name))


def file_name(content: bytes, suffix: str = ".pem") -> str:
    return content_hash(content) + suffix


def tls(port: int, *certificates: tuple[Pair | bytes, Sequence[str]], clients: str = "", insecure: bool = False) -> Tls:
    """Return TLS for one port: certificates with their names, and the authority of clients."""
    contents = [(one if isinstance(one, bytes) else one.content, tuple(names)) for one, names in certificates]
    files = {file_name(content): content for content, _ in contents}
    validation = None
    if clients:
        content = authority(clients).certificate
        validation = wire.ClientValidation(file=file_name(content, ".ca.pem"), insecure=insecure)
        files[validation.file] = content
    named = tuple(wire.Certificate(file=file_name(content), names=names) for content, names in contents)
    return Tls((wire.TlsPort(port=port, certificates=named, clients=validation),), files)


def both(*parts: Tls) -> Tls:
    return Tls(
        tuple(port for part in parts for port in part.ports), {k: v for part in parts for k, v in part.files.items()}
    )


def context(*, alpn: Sequence[str] = (), client: Pair | None = None, **versions: ssl.TLSVersion) -> ssl.SSLContext:
    """Return a client that takes any certificate; tests look at which one it is."""
    made = ssl.create_default_context()
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    if alpn:
        made.set_alpn_protocols(alpn)
    for name, version in versions.items():
        setattr(made, f"{name}_version", version)
    if client is not None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(client.content)
            file.flush()
            made.load_cert_chain(file.name)
    return made


def secure(port: int, name: str | None = "tea", **more: object) -> Secure:
    return Secure(port, context(**more), name)


async def certificate_of(port: int, name: str | None, **more: object) -> bytes:
    """Return the certificate that a client gets who asks for a name (DER)."""
    _, writer = await connect(secure(port, name, **more))
    try:
        return writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def https(
    origins, *certificates: tuple[Pair | bytes, Sequence[str]], more_ports: Sequence[int] = (), **options: object
) -> AsyncIterator[tuple[DataPlane, int]]:
    """Give a data plane that serves the host tea on a plain and on an https socket, and the latter's port."""
    port = free_port()
    tls_sockets = "".join(f";https-{each}=127.0.0.1:{each},https" for each in (port, *more_ports))
    async with running(f"ghost-reload=127.0.0.1:0,http;http-1=127.0.0.1:0,http{tls_sockets}") as plane:
        change = Change(
            vcl=main_vcl(),
            routing=routing("tea"),
            slices=endpoints("tea", await origins.port("tea")),
            tls=tls(port, *(certificates or ((pair("tea"), ["tea"]),)), **options),
        )
        await must_serve(plane, change)
        yield plane, port


async def begin_request(port: Port) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request for the host tea but for the end of its body."""
    reader, writer = await connect(port)
    writer.write(b"POST / HTTP/1.1\r\nHost: tea\r\nContent-Length: 4\r\n\r\nab")
    await writer.drain()
    return reader, writer


async def end_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Send the rest of the body; return the head of the answer."""
    writer.write(b"cd")
    answer = await reader.readuntil(b"\r\n\r\n")
    writer.transport.abort()
    return answer


async def finish(*tasks: asyncio.Task[object]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
