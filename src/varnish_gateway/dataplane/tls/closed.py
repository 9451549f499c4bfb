"""Which ports should have opened while varnishd runs, or serve other certificates, and could not yet.

In:   the desired ports, the desired plan and the one that serves, the ports that other processes have.
Out:  sockets with a reason for each, for people.
"""

import time
from collections.abc import Iterable, Mapping

from varnish_gateway.api.meta import timestamp
from varnish_gateway.dataplane.process.port_owners import TerminatorPort
from varnish_gateway.dataplane.tls.plan import TlsPlan


def closed_ports(
    ports: Iterable[TerminatorPort], desired: TlsPlan, serving: TlsPlan, taken: Mapping[str, str], wait: float
) -> dict[str, str]:
    """Return the closed sockets among those that came later. ``wait``: the desired plan serves after so long."""
    is_open = {(bind.port, bind.is_tls) for bind in serving.binds}
    waiting = {bind.port for bind in desired.binds if (bind.port, bind.is_tls) not in is_open} if wait else set()
    reasons = {port.socket.name: f"it opens {_at(wait)}" for port in ports if port.socket.port in waiting}
    later = {port.socket.name for port in ports if port.is_later}
    return {name: reason for name, reason in {**reasons, **taken}.items() if name in later}


def deferred_ports(ports: Iterable[TerminatorPort], desired: TlsPlan, possible: TlsPlan, wait: float) -> dict[str, str]:
    """Return the open sockets whose newest certificates or authorities wait; the former ones serve until then."""
    if not wait:
        return {}
    stays = {bind.port for bind in desired.binds if bind.is_tls}
    stays &= {bind.port for bind in possible.binds if bind.is_tls}
    held = {port for port in stays if possible.of(port) != desired.of(port)}
    reason = f"its newest certificates and authorities serve {_at(wait)}"
    return {port.socket.name: reason for port in ports if port.socket.port in held}


def _at(wait: float) -> str:
    """Return when something happens that has to wait so long, and why it waits."""
    moment = timestamp(round(time.time() + wait))
    return f"at {moment} or later, because many ports changed and open connections have to outlive each change"
