"""Fold watch events, and the API server's answers to our own writes, into the observed state.

In:   what reflectors deliver (``on_...``) and what executors got back (``record_...``), in any order.
Out:  ObservedState with the newest version of every object, and the Batch of what changed.

A write and its watch event race each other. The newer resource version wins, and a deletion that
a watch reports while a write is in flight wins over the answer to that write.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.kube.versions import is_newer
from varnish_gateway.operator.observe.inputs import ObservedInput
from varnish_gateway.operator.observe.owned import OwnedObject, OwnedSecret
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.observe.state import Batch, ObservedState
from varnish_gateway.translate.tls.served import of_gateway, served_key

Note = Callable[[Key, str], bool]
"""Reflector.note: return False if the object is already deleted."""


class ChangeCollector:
    """``notify`` is called whenever the pending batch has grown."""

    def __init__(self, observed: ObservedState, notify: Callable[[], None]) -> None:
        self._observed = observed
        self._notify = notify
        self._pending = Batch()
        self._foreign: set[Key] = set()
        self._writing: dict[Key, bool] = {}  # writes in flight, and whether the object was deleted meanwhile

    def drain(self) -> Batch:
        """Return the pending batch and start a new one."""
        drained, self._pending = self._pending, Batch()
        return drained

    # -- watch events --------------------------------------------------------------------

    def on_inputs(self, changes: Mapping[Key, ObservedInput | None]) -> None:
        """Update objects whose status the operator writes."""
        for key, new in changes.items():
            if new is None:
                self._observed.inputs.pop(key, None)
                self._pending.inputs[key] = None
                if key.kind == api.Gateway.kind:
                    self._pending.inputs[served_key(key)] = None
            else:
                self._update_input(key, new)
            if key.kind in (api.GatewayClass.kind, api.Gateway.kind):
                self._track_foreign(key)
        self._notify()

    def on_references(self, changes: Mapping[Key, api.Object | None]) -> None:
        """Pass objects on to translation whose status the operator does not write; they are not kept here."""
        self._pending.inputs.update(changes)
        self._notify()

    def on_owned(self, changes: Mapping[Key, OwnedObject | None]) -> None:
        for key, owned in changes.items():
            known = self._observed.owned.get(key)
            if owned is None:
                self._observed.remove_owned(key)
                if key in self._writing:
                    self._writing[key] = True
            elif known is None or known.uid != owned.uid or is_newer(owned.version, known.version):
                self._put_owned(key, owned)
            else:
                continue
            self._pending.owned.add(key)
            self._mark_reachability(key, known, owned)
        self._notify()

    def on_pods(self, changes: Mapping[Key, GatewayPod | None]) -> None:
        for key, pod in changes.items():
            before = self._observed.put_pod(key, pod)
            if before != pod:
                self._pending.reachability.update(one.gateway for one in (before, pod) if one is not None)
        self._notify()

    def _update_input(self, key: Key, new: ObservedInput) -> None:
        known = self._observed.inputs.get(key)
        if known is None and key.kind == api.Gateway.kind:
            self._recall_certificates(key, new.obj.metadata.uid)
        if known is None or is_newer(new.version, known.version):
            self._pending.stored.add(key)
            self._observed.inputs[key] = new
        else:  # the answer to our own write overtook this event: only the status there is newer
            self._observed.inputs[key] = new._replace(version=known.version, status=known.status)
            if new.finalizers != known.finalizers:
                self._pending.stored.add(key)
        if known is None or (new.obj, new.is_deleting) != (known.obj, known.is_deleting):
            # A user who deletes a Gateway expects its pods to go, even while finalizers hold the object.
            self._pending.inputs[key] = None if new.is_deleting and key.kind == api.Gateway.kind else new.obj

    def _recall_certificates(self, gateway: Key, uid: str) -> None:
        """Add what a Gateway serves that was observed before: its kind was not served for a while.

        The Secret of an earlier Gateway of the name has another owner.
        """
        for key in self._observed.owned_by(gateway):
            if self._observed.owned[key].owner == uid:
                self._add_certificates(key, self._observed.owned[key])

    def _track_foreign(self, key: Key) -> None:
        """Notice when a Gateway, or every Gateway of a class, stops being another operator's."""
        gateways = [key]
        if key.kind == api.GatewayClass.kind:
            gateways = [one for one in self._observed.inputs if one.kind == api.Gateway.kind]
        for gateway in gateways:
            if self._observed.is_foreign(gateway):
                self._foreign.add(gateway)
            elif gateway in self._foreign:
                self._foreign.remove(gateway)
                self._pending.has_released = True

    # -- answers to our own writes -------------------------------------------------------

    @contextlib.contextmanager
    def writing(self, key: Key) -> Iterator[None]:
        """Enclose a request and its ``record_owned``: a deletion observed in between wins over the answer."""
        self._writing[key] = False
        try:
            yield
        finally:
            self._writing.pop(key, None)

    def record_owned(self, key: Key, owned: OwnedObject, note: Note) -> None:
        """Record a generated object as the API server returned it.

        An object without our labels is not watched, so its deletion would go unnoticed: it is not recorded.
        """
        known = self._observed.owned.get(key)
        is_outdated = self._writing.get(key) or (known is not None and not is_newer(owned.version, known.version))
        if is_outdated or not self._observed.has_our_labels(owned):
            return
        if note(key, owned.version):
            self._put_owned(key, owned)
            self._mark_reachability(key, known, owned)
        else:  # the object was deleted before the answer arrived
            self._pending.owned.add(key)
            self._notify()

    def record_status(self, key: Key, version: str, status: bytes) -> None:
        """Record a status as the API server returned it."""
        known = self._observed.inputs.get(key)
        if known is not None and is_newer(version, known.version):
            self._observed.inputs[key] = known._replace(version=version, status=status)

    def _put_owned(self, key: Key, owned: OwnedObject) -> None:
        """Record a generated object. The certificates in a Gateway's Secret are an input of its translation.

        A deleted Secret takes none away: it is written again. The one of an earlier version counts until
        there is the current one.
        """
        self._observed.put_owned(key, owned)
        self._add_certificates(key, owned)

    def _add_certificates(self, key: Key, owned: OwnedObject) -> None:
        gateway = owned.gateway
        current = key._replace(name=names.secret(gateway.name))
        if key != current and current in self._observed.owned:
            return
        if isinstance(owned, OwnedSecret) and owned.is_applied_by_us and names.belongs(*key, *gateway[1:]):
            self._pending.inputs[served_key(gateway)] = of_gateway(gateway, owned.certificates)

    def _mark_reachability(self, key: Key, *versions: OwnedObject | None) -> None:
        if key.kind == api.Service.kind:
            self._pending.reachability.update(one.gateway for one in versions if one is not None)
            self._notify()
