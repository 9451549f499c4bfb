"""HAProxy's counters and the expiry of certificates, in Prometheus' text format.

In:   HAProxy's statistics, and the serving certificates.
Out:  lines. HAProxy's counters start at zero when it starts or reloads.
"""

from collections.abc import Iterable, Iterator, Mapping

from varnish_gateway.dataplane.events import Event
from varnish_gateway.dataplane.tls import events
from varnish_gateway.dataplane.tls.expiry import CertificateExpiry
from varnish_gateway.runtime.prometheus import family

COUNTED: Mapping[type[Event], tuple[str, str]] = {
    events.HaproxyExited: ("vgw_haproxy_deaths_total", "Processes of HAProxy that died."),
    events.HaproxyReloaded: ("vgw_haproxy_reloads_total", "Reloads of HAProxy."),
    events.CertificatesChanged: ("vgw_certificate_changes_total", "Changes of certificates without a reload."),
    events.TlsFailed: ("vgw_tls_failures_total", "Certificates that were rejected."),
}
"""Events that /metrics counts, with the name and the help of their counter."""

_COLUMNS = {
    "scur": ("vgw_tls_connections", "gauge", "Connections on a TLS port now."),
    "stot": ("vgw_tls_connections_total", "counter", "Connections on a TLS port."),
    "req_tot": ("vgw_tls_requests_total", "counter", "Requests on a TLS port."),
    "ereq": ("vgw_tls_bad_requests_total", "counter", "Requests on a TLS port that HAProxy could not read."),
}


def lines(ports: Iterable[Mapping[str, str]], certificates: Iterable[CertificateExpiry]) -> Iterator[str]:
    """Return lines for /metrics."""
    rows = list(ports)
    if rows:
        for column, (name, kind, help_text) in _COLUMNS.items():
            samples = [({"socket": row["pxname"]}, float(row.get(column) or 0)) for row in rows]
            yield from family(name, kind, help_text, samples)
    samples = [({"port": str(one.port), "names": one.names}, one.expires) for one in certificates]
    if samples:
        help_text = "When a serving certificate expires."
        yield from family("vgw_certificate_expiry_timestamp_seconds", "gauge", help_text, samples)
