"""Limit how often ListenerSets replace the pods of a Gateway.

In:   a Deployment as observed and as desired; whether its pods open ports while varnishd runs; the time, in seconds
      since 1970.
Out:  whether to apply it now, and with which record of port changes; or when to apply it at the earliest.
Pure. varnishd opens its sockets when it starts, so a port that it has to open means new pods, whose caches are empty.

Pods with the capability open the ports of ListenerSets themselves. Their template gets such a port along with the next
change that replaces them. New pods are needed only where varnishd has the port open for plain HTTP and a listener
needs it for TLS. That goes the way of pods without the capability:

The operator applies the first port at once. Each further one waits longer, and the operator applies all that came
meanwhile together. It applies every other change of the Deployment at once, with the ports that wait. So it does with
ports of the Gateway's own listeners: its owner may replace its pods. A port that only closes replaces no pod: its
Service sends no traffic there any more. The record is an annotation of the Deployment, so a restart forgets nothing.

Where others have changed the Deployment, the operator repairs it with the ports that wait, but counts that as a port
change: a webhook makes the same change each time, and ports would replace the pods each time.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from varnish_gateway.api.meta import timestamp
from varnish_gateway.emit import names
from varnish_gateway.emit.manifests import covers
from varnish_gateway.emit.manifests.containers import LISTEN_VARIABLE
from varnish_gateway.ir.pod import GATEWAY_CONTAINER
from varnish_gateway.ir.reserved import PLAIN_SCHEME, TLS_SCHEME, socket_name
from varnish_gateway.translate.conditions import listed

FIRST_SECONDS, LAST_SECONDS = 60.0, 3600.0
"""How long the second port change waits after the first; each further one waits twice as long, up to the last."""
DECAY_SECONDS = 3600.0
"""Each such time without a port change, after the wait is over, takes back one doubling."""
SKEW_SECONDS = 300.0
"""How far the clocks of two operators may differ."""

Document = Mapping[str, Any]


class PortRecord(Struct, frozen=True):
    """How many port changes followed one another, and when the newest one was applied."""

    count: int = 0
    at: float = 0.0

    @property
    def until(self) -> float:
        """The time from which on the next change may be applied."""
        return self.at + self._wait

    @property
    def _wait(self) -> float:
        return min(FIRST_SECONDS * 2.0 ** min(self.count - 1, 16), LAST_SECONDS) if self.count else 0.0

    def next(self, now: float) -> "PortRecord":
        """Return the record with one more change."""
        decayed = int(max(0.0, now - self.until) // DECAY_SECONDS)
        return PortRecord(max(0, self.count - decayed) + 1, math.floor(now))

    def encode(self) -> str:
        return f"{self.count} {timestamp(self.at)}" if self.count else ""


class PortChange(Struct, frozen=True):
    """``wait``: apply the Deployment after so many seconds, infinity for a change that goes along with another one.

    ``opening`` are the sockets that it opens, ``record`` is what the Deployment has to carry then.
    """

    wait: float
    record: PortRecord
    opening: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """What waits and until when, for people; "" where no port waits to be opened."""
        if not self.opening or not self.wait:
            return ""
        return (
            f"{listed(self.opening, ', ')} of ListenerSets opens at {timestamp(self.record.until)} or later: ports "
            "that ListenerSets open replace all pods, so the operator limits how often"
        )


def plan(observed: Document, desired: Document, now: float, *, pods_open_ports: bool = False) -> PortChange:
    """Return whether the Deployment may be applied now."""
    record = decode_record(observed, now)
    before, after = _sockets(observed), _sockets(desired)
    if before == after or not _is_of_ports(observed, desired):
        return PortChange(0.0, record)
    opening = tuple(sorted(after - before))
    needs_no_pods = not opening or (pods_open_ports and not _takes_from_varnishd(opening, before))
    if needs_no_pods and covers(observed, _without_ports(desired)):
        return PortChange(math.inf, record)
    wait = max(0.0, record.until - now)
    return PortChange(wait, record, opening) if wait else PortChange(0.0, record.next(now), opening)


def _takes_from_varnishd(opening: Iterable[str], before: Collection[str]) -> bool:
    """Whether a port that varnishd has open for plain HTTP changes to TLS."""
    needed = {name.removeprefix(socket_name(TLS_SCHEME, "")) for name in opening}
    return any(socket_name(PLAIN_SCHEME, port) in before for port in needed)


def with_record(manifest: Document, record: PortRecord) -> Document:
    """Return a Deployment that carries the record."""
    if not record.count:
        return manifest
    metadata = manifest["metadata"]
    annotations = {**metadata["annotations"], names.PORT_CHANGES: record.encode()}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def decode_record(deployment: Document, now: float) -> PortRecord:
    """Return the record of a Deployment; one that can't be read, or of another clock, limits nothing."""
    count, _, at = _annotations(deployment).get(names.PORT_CHANGES, "").partition(" ")
    try:
        record = PortRecord(int(count), datetime.fromisoformat(at).timestamp())
    except ValueError:
        return PortRecord()
    return record if record.count > 0 and record.at <= now + SKEW_SECONDS else PortRecord()


def _is_of_ports(observed: Document, desired: Document) -> bool:
    """Whether ports of ListenerSets are the only difference from what the operator applied last."""
    own, desired_own = (_annotations(one).get(names.OWN_TEMPLATE) for one in (observed, desired))
    return own == desired_own


def _without_ports(deployment: Document) -> Document:
    """Return metadata and pod template of a Deployment without the fields that depend on ports.

    The number of pods is left out: others may hold it, and it replaces none.
    """
    metadata, template = deployment["metadata"], deployment["spec"]["template"]
    pod, about = template["spec"], template["metadata"]
    containers = [_portless(one) if one["name"] == GATEWAY_CONTAINER else one for one in pod["containers"]]
    template = {
        "metadata": {**about, "annotations": _less(about["annotations"], names.INFRA_HASH)},
        "spec": {**pod, "containers": containers},
    }
    return {
        "metadata": {**metadata, "annotations": _less(metadata["annotations"], names.APPLIED_HASH)},
        "spec": {"template": template},
    }


def _portless(container: Document) -> Document:
    variables = [one for one in container["env"] if one["name"] != LISTEN_VARIABLE]
    return {**_less(container, "ports"), "env": variables}


def _less(mapping: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key != name}


def _sockets(deployment: Document) -> frozenset[str]:
    """Return the names of the sockets that varnishd opens."""
    containers = deployment["spec"]["template"]["spec"].get("containers", ())
    variables = [one for each in containers if each["name"] == GATEWAY_CONTAINER for one in each.get("env", ())]
    listen = next((one.get("value", "") for one in variables if one["name"] == LISTEN_VARIABLE), "")
    return frozenset(entry.partition("=")[0] for entry in listen.split(";"))


def _annotations(document: Document) -> Mapping[str, str]:
    found: Mapping[str, str] = document["metadata"].get("annotations", {})
    return found
