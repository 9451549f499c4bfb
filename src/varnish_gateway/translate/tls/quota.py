"""The quota of certificates: all files of a Gateway travel in one object of limited size.

In:   the limit in bytes, and files in the order in which they count.
Out:  whether each file fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway.translate import hostnames
from varnish_gateway.translate.incremental.dependency import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from varnish_gateway.api import Key
    from varnish_gateway.translate.listener import ValidatedListener
    from varnish_gateway.translate.tls.material import Material
    from varnish_gateway.translate.tls.pem import File

ENTRY_BYTES = 60
"""The size of an entry of tls.json for a certificate and one of its names, without the name."""
SOURCE_BYTES = 40
"""The size of an entry of sources.json for a certificate and its Secret, without the Secret's name."""

OVER_QUOTA: Table[Mapping[Key, frozenset[str]]] = Table("listeners over quota")
"""By Gateway: the ids of listeners by ListenerSet. See gateway/over_quota.py."""


class Quota:
    """What is left of the limit. Without a limit everything fits."""

    def __init__(self, limit: int | None) -> None:
        self._left = limit
        self._charged: set[str] = set()

    def charge_all(self, listeners: Iterable[ValidatedListener], material: Material) -> frozenset[str]:
        """Charge the files of listeners; return the ids of the listeners with a file that does not fit."""
        over_quota = set()
        for listener in listeners:
            clients = material.clients.get(listener.port)
            for file in material.certificates.get(listener.id, ()):
                if not self.charge(file, clients.file if clients else None, listener.hostname):
                    over_quota.add(listener.id)
        return frozenset(over_quota)

    def charge(self, file: File, authorities: File | None, hostname: str) -> bool:
        """Charge a certificate and the authorities of its port, each file once; return whether they fit."""
        new = {each.name: len(each.text) for each in (file, authorities) if each and each.name not in self._charged}
        if self._left is not None:
            names = {hostname, *(host for host in file.hosts if hostnames.covers(hostname, host))}
            entries = sum(ENTRY_BYTES + len(name) for name in names) + _source_bytes(file)
            left = self._left - sum(new.values()) - entries
            if left < 0:
                return False
            self._left = left
        self._charged.update(new)
        return True


def _source_bytes(file: File) -> int:
    return SOURCE_BYTES + len(file.source.namespace) + len(file.source.name) if file.source else 0
