"""What the operator watches.

In:   the API server.
Out:  ``batch`` returns what changed since the last call: objects to translate, and which of the
      statuses, generated objects and pods are others than before. The newest of each is kept
      here for comparison.

Of all Secrets only those with certificates are read. ConfigMaps are watched one by one, as other
objects name them: see named.py.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.decoding import json_decoder
from varnish_gateway.emit import names
from varnish_gateway.kinds import Kind, Use, used_for
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.events import Reference
from varnish_gateway.kube.reflector import Reflector
from varnish_gateway.kube.resources import RESOURCES
from varnish_gateway.kube.versions import is_newer
from varnish_gateway.operator.observe.config_maps import NOTHING, NamedMaps, maps_named_by
from varnish_gateway.operator.observe.owned import LiveObject, decoder_of
from varnish_gateway.operator.observe.pods import Pod, decode_pod
from varnish_gateway.translate.options import CONTROLLER

NOTHING_LEFT: Mapping[str, Any] = {"f:status": {}}
"""What the API server has a manager hold that took a status back."""


class Seen(NamedTuple):
    """An object with a status, as it was last seen. ``is_told``: a Gateway or ListenerSet whose status we wrote."""

    obj: api.Object
    version: str
    status: bytes
    is_ending: bool
    finalizers: tuple[str, ...] = ()
    is_told: bool = False


class Batch(Struct):
    """What changed. ``owned`` are the Gateways' objects, ``reached`` the Gateways with other pods or another Service.

    ``is_released``: a Gateway is not another operator's any more, so what is said of it may be ours to take back.
    """

    inputs: dict[Key, api.Object | None] = field(default_factory=dict)
    stated: set[Key] = field(default_factory=set)
    owned: set[Key] = field(default_factory=set)
    reached: set[Key] = field(default_factory=set)
    is_released: bool = False


class _Metadata(Struct, rename="camel"):
    resource_version: str = ""
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()


class _Envelope(Struct):
    metadata: _Metadata
    status: msgspec.Raw = msgspec.Raw(b"null")


class _Manager(Struct):
    manager: str = ""
    fields: dict[str, Any] = field(default_factory=dict, name="fieldsV1")


class _ManagedMetadata(Struct, rename="camel"):
    managed_fields: tuple[_Manager, ...] = ()


class _Managed(Struct):
    metadata: _ManagedMetadata


_envelope = msgspec.json.Decoder(_Envelope)
_managed = msgspec.json.Decoder(_Managed)


class Sources:
    """``stated``, ``live`` and ``pods`` hold the newest of what was seen."""

    def __init__(self, client: Client, class_name: str) -> None:
        self._client = client
        self.class_key = Key(api.GatewayClass.kind, "", class_name)
        self.stated: dict[Key, Seen] = {}
        self.live: dict[Key, LiveObject] = {}
        self._live_of: dict[Key, set[Key]] = {}  # by Gateway
        self.pods: dict[Key, dict[Key, Pod]] = {}  # by Gateway
        self._pods: dict[Key, Pod] = {}
        self._others: set[Key] = set()  # Gateways of other operators of our name
        self._awaited: dict[Key, bool] = {}  # writes on their way, and whether the object ended meanwhile
        self._batch = Batch()
        self._wake = asyncio.Event()
        self._maps = NamedMaps(client, self._take_read)
        selector = names.owned_selector(class_name)
        self._owned_reflectors = {kind.name: self._owned(kind.name, selector) for kind in used_for(Use.OWNED)}
        self._reflectors: list[Reflector[Any]] = [
            *(self._stated(kind) if Use.STATUS in kind.uses else self._read(kind) for kind in used_for(Use.INPUT)),
            *self._owned_reflectors.values(),
            Reflector(client, RESOURCES["Pod"], decode_pod, self._take_pods, label_selector=selector),
        ]

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    async def synced(self) -> None:
        """Return once everything was read for the first time."""
        for reflector in self._reflectors:
            await reflector.synced.wait()

    @property
    def watched(self) -> list[str]:
        """Kinds with a watch; one that is both an input and generated has two."""
        return [reflector.resource.kind for reflector in self._reflectors]

    @property
    def problems(self) -> list[str]:
        """What can't be watched at the moment. A kind that is not installed is none of them."""
        return [one.problem for one in self._reflectors if one.problem and not one.absent]

    @property
    def absent(self) -> list[str]:
        """Kinds that are not installed."""
        return [one.resource.kind for one in self._reflectors if one.absent]

    async def batch(self) -> Batch:
        """Wait until something changed; return all of it."""
        await self._wake.wait()
        self._wake.clear()
        if self._maps.is_behind:
            await self._maps.follow(self._group)
        taken, self._batch = self._batch, Batch()
        return taken

    def reference(self, key: Key) -> Reference:
        """Return the object as an Event names it."""
        seen = self.stated.get(key)
        uid = seen.obj.metadata.uid if seen is not None else ""
        return Reference(RESOURCES[key.kind].api_version, key.kind, key.namespace, key.name, uid)

    def gateway_of(self, key: Key) -> Key:
        """Return the Gateway of a ListenerSet; a Gateway is its own."""
        seen = self.stated.get(key)
        return seen.obj.gateway if seen and isinstance(seen.obj, api.ListenerSet) else key

    def is_of_another_operator(self, key: Key) -> bool:
        """Whether the class of a Gateway, or of a ListenerSet's, is another one of our controller.

        That one has an operator of its own.
        """
        seen = self.stated.get(self.gateway_of(key))
        name = seen.obj.spec.gateway_class_name if seen and isinstance(seen.obj, api.Gateway) else ""
        its_class = self.stated.get(Key(api.GatewayClass.kind, "", name))
        if its_class is None or not isinstance(its_class.obj, api.GatewayClass):
            return False
        return name != self.class_key.name and its_class.obj.spec.controller_name == CONTROLLER

    def live_of(self, gateway: Key) -> list[Key]:
        """Return what there is of a Gateway."""
        return list(self._live_of.get(gateway, ()))

    @contextlib.contextmanager
    def awaiting(self, key: Key) -> Iterator[None]:
        """Enclose a request and its ``answered``: an end that is heard of in between is the newer word."""
        self._awaited[key] = False
        try:
            yield
        finally:
            self._awaited.pop(key, None)

    def is_watched(self, live: LiveObject) -> bool:
        """Whether an object has our labels."""
        return live.class_label == names.label_value(self.class_key.name)

    def answered(self, key: Key, live: LiveObject) -> None:
        """Take in an object as the API server returned it to us.

        One without our labels is not watched, so nobody would tell us of its end.
        """
        known = self.live.get(key)
        if self._awaited.get(key) or not self.is_watched(live) or (known and not is_newer(live.version, known.version)):
            return
        if self._owned_reflectors[key.kind].note(key, live.version):
            self._keep_live(key, live)
        else:  # it ended before the answer came
            self._batch.owned.add(key)
            self._wake.set()

    def answered_status(self, key: Key, version: str, status: bytes) -> None:
        """Take in a status as the API server returned it from a write of ours."""
        seen = self.stated.get(key)
        if seen is not None and is_newer(version, seen.version):
            self.stated[key] = seen._replace(version=version, status=status)

    # -- what reflectors deliver ---------------------------------------------------------

    def _stated(self, kind: Kind) -> Reflector[Seen]:
        decoder = json_decoder(kind)
        is_managed = Use.STATUS_MANAGER in kind.uses

        def decode(text: bytes) -> Seen:
            envelope = _envelope.decode(text)
            metadata = envelope.metadata
            return Seen(
                obj=decoder.decode(text),
                version=metadata.resource_version,
                status=bytes(envelope.status),
                is_ending=metadata.deletion_timestamp is not None,
                finalizers=metadata.finalizers,
                is_told=is_managed and _is_told(text),
            )

        return Reflector(self._client, RESOURCES[kind.name], decode, self._take_stated)

    def _read(self, kind: Kind) -> Reflector[api.Object]:
        take = self._take_parameters if kind.object_type is api.GatewayClassParameters else self._take_read
        return Reflector(
            self._client,
            RESOURCES[kind.name],
            json_decoder(kind).decode,
            take,
            field_selector=kind.field_selector,
            other_versions=kind.fallback_versions,
        )

    def _owned(self, kind: str, selector: str) -> Reflector[LiveObject]:
        return Reflector(self._client, RESOURCES[kind], decoder_of(kind), self._take_owned, label_selector=selector)

    def _take_stated(self, changes: dict[Key, Seen | None]) -> None:
        for key, seen in changes.items():
            if seen is None:
                self.stated.pop(key, None)
                self._maps.name(key, NOTHING)
                self._batch.inputs[key] = None
            else:
                self._keep_stated(key, seen)
            if key.kind in (api.GatewayClass.kind, api.Gateway.kind):
                self._note_whose(key)
        self._wake.set()

    def _keep_stated(self, key: Key, new: Seen) -> None:
        self._maps.name(key, maps_named_by(new.obj, self.class_key.name))
        known = self.stated.get(key)
        if known is None or is_newer(new.version, known.version):
            self._batch.stated.add(key)
            self.stated[key] = new
        else:  # the answer to a write of ours came first: only the status there is newer
            self.stated[key] = new._replace(version=known.version, status=known.status)
            if new.finalizers != known.finalizers:
                self._batch.stated.add(key)
        if known is None or (new.obj, new.is_ending) != (known.obj, known.is_ending):
            # Whoever deletes a Gateway wants its pods gone, also while finalizers hold the object.
            self._batch.inputs[key] = None if new.is_ending and key.kind == api.Gateway.kind else new.obj

    def _note_whose(self, key: Key) -> None:
        """Notice when a Gateway, or those of a class, cease to be another operator's."""
        concerned = [key]
        if key.kind == api.GatewayClass.kind:
            concerned = [one for one in self.stated if one.kind == api.Gateway.kind]
        for gateway in concerned:
            if self.is_of_another_operator(gateway):
                self._others.add(gateway)
            elif gateway in self._others:
                self._others.remove(gateway)
                self._batch.is_released = True

    def _take_read(self, changes: dict[Key, api.Object | None]) -> None:
        self._batch.inputs.update(changes)
        self._wake.set()

    def _take_parameters(self, changes: dict[Key, api.Object | None]) -> None:
        for key, parameters in changes.items():
            self._maps.name(key, maps_named_by(parameters, self.class_key.name))
        self._take_read(changes)

    def _take_owned(self, changes: dict[Key, LiveObject | None]) -> None:
        for key, live in changes.items():
            known = self.live.get(key)
            if live is None:
                self._lose_live(key)
                if key in self._awaited:
                    self._awaited[key] = True
            elif not self._keep_newer(key, live):
                continue
            self._batch.owned.add(key)
            if key.kind == api.Service.kind:
                self._batch.reached.update(one.gateway for one in (known, live) if one is not None)
        self._wake.set()

    def _keep_newer(self, key: Key, live: LiveObject) -> bool:
        known = self.live.get(key)
        if known is not None and known.uid == live.uid and not is_newer(live.version, known.version):
            return False
        self._keep_live(key, live)
        return True

    def _keep_live(self, key: Key, live: LiveObject) -> None:
        known = self.live.get(key)
        if known is None or known.gateway != live.gateway:
            self._lose_live(key)
            self._live_of.setdefault(live.gateway, set()).add(key)
        self.live[key] = live

    def _lose_live(self, key: Key) -> None:
        known = self.live.pop(key, None)
        if known is None:
            return
        keys = self._live_of[known.gateway]
        keys.discard(key)
        if not keys:
            del self._live_of[known.gateway]

    def _take_pods(self, changes: dict[Key, Pod | None]) -> None:
        for key, pod in changes.items():
            before = self._pods.pop(key, None)
            if before is not None:
                self.pods[before.gateway].pop(key)
                if not self.pods[before.gateway]:
                    del self.pods[before.gateway]
            if pod is not None:
                self._pods[key] = pod
                self.pods.setdefault(pod.gateway, {})[key] = pod
            if before != pod:
                self._batch.reached.update(seen.gateway for seen in (before, pod) if seen is not None)
        self._wake.set()


def _is_told(text: bytes) -> bool:
    entries = _managed.decode(text).metadata.managed_fields
    return any(one.manager == names.GATEWAY_MANAGER and one.fields != NOTHING_LEFT for one in entries)
