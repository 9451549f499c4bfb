"""Read stored TLS: tls.json and the files that it names.

In:   contents by name, of a Secret or a directory.
Out:  ir.Tls, or BadDocument that names the file which is missing or does not match its name.
"""

import re
from collections.abc import Iterable, Mapping

from varnish_gateway import errors
from varnish_gateway.dataplane.jsontext import read_json
from varnish_gateway.emit.names import TLS as TLS_JSON
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir import Tls, wire

_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_NAMED_BY_CONTENT = re.compile(r"([0-9a-f]{16})(\.ca)?\.pem")


def read_ports(content: bytes, source: str) -> tuple[wire.TlsPort, ...]:
    """Decode tls.json."""
    ports = read_json(content, wire.TlsDocument, f"{source}, {TLS_JSON}").ports
    for name in file_names(ports):
        if not _FILE.fullmatch(name):
            raise errors.BadDocument(f"{source}, {TLS_JSON}: {name!r} is not the name of a file beside it")
    return ports


def file_names(ports: Iterable[wire.TlsPort]) -> list[str]:
    """Return every file that ports name, each once."""
    names = {certificate.file: None for port in ports for certificate in port.certificates}
    return [*names | {port.clients.file: None for port in ports if port.clients is not None}]


def read_tls(contents: Mapping[str, bytes], source: str) -> Tls:
    """Read what the operator wrote; without tls.json there is no TLS. Each name holds the hash of its content."""
    if TLS_JSON not in contents:
        return Tls()
    ports = read_ports(contents[TLS_JSON], source)
    files: dict[str, bytes] = {}
    for name in file_names(ports):
        match = _NAMED_BY_CONTENT.fullmatch(name)
        if name not in contents:
            raise errors.BadDocument(f"{source}: {name}, which {TLS_JSON} names, is not there")
        if match is None or content_hash(contents[name]) != match[1]:
            raise errors.BadDocument(f"{source}: {name} does not match the hash in its name")
        files[name] = contents[name]
    return Tls(ports, files)
