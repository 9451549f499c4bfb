"""Watch events and answers to our own writes, in any order."""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from varnish_gateway import api
from varnish_gateway.api import GatewayClass, Key
from varnish_gateway.emit import names
from varnish_gateway.kube.metrics import Metrics
from varnish_gateway.kube.reflector import Reflector
from varnish_gateway.kube.resources import RESOURCES
from varnish_gateway.operator.observe.changes import ChangeCollector
from varnish_gateway.operator.observe.inputs import ObservedInput
from varnish_gateway.operator.observe.owned import decode_config_map, decode_object, decode_secret
from varnish_gateway.operator.observe.state import ObservedState
from varnish_gateway.translate.tls.served import served_key

KEY = Key("ConfigMap", "shop", "gw-vcl")
SERVICE = Key("Service", "shop", "gw-vgw")
LABELS = names.labels("shop", "gw", "varnish")
GATEWAYS = [Key("Gateway", "shop", name) for name in ("gw", "other")]
STEPS = ("write", "answer", "delete", "change", "move", "observe", "observe_one")


class StubClient:
    """An API server whose watch sends the chunks that a test puts into ``chunks``."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.chunks: asyncio.Queue[list[bytes]] = asyncio.Queue()

    async def read(self, _: str, **__: object) -> bytes:
        return b'{"kind": "ConfigMapList", "metadata": {"resourceVersion": "0"}, "items": []}'

    async def lines(self, _: str, **__: object) -> AsyncIterator[list[bytes]]:
        while True:
            yield await self.chunks.get()
            self.chunks.task_done()


class History:
    """One object: its stored versions, and the events that the operator has not received yet."""

    def __init__(self) -> None:
        self.client = StubClient()
        self.observed = ObservedState("varnish")
        self.stored: dict | None = None
        self._changes = ChangeCollector(self.observed, lambda: None)
        self.reflector = Reflector(self.client, RESOURCES["ConfigMap"], decode_config_map, self._changes.on_owned)
        self._gateway = GATEWAYS[0]
        self._version = self._incarnation = 0
        self._undelivered: list[bytes] = []
        self._answer: bytes | None = None
        self._writing = ExitStack()

    async def write(self) -> None:
        """Have a write of ours reach the API server; the executor runs one at a time."""
        await self.answer()
        self._writing.enter_context(self._changes.writing(KEY))
        self._store()
        self._answer = json.dumps(self.stored).encode()

    async def answer(self) -> None:
        """Have the answer to our write arrive."""
        if self._answer is not None:
            self._changes.record_owned(KEY, decode_config_map(self._answer), self.reflector.note)
        self._answer = None
        self._writing.close()

    async def change(self) -> None:
        """Have another client change the object."""
        if self.stored is not None:
            self._store()

    async def move(self) -> None:
        """Have another client change the object so that it belongs to another Gateway."""
        self._gateway = GATEWAYS[1 - GATEWAYS.index(self._gateway)]
        await self.change()

    async def delete(self) -> None:
        if self.stored is not None:
            self._store("DELETED")

    async def observe(self) -> None:
        await self._observe(len(self._undelivered))

    async def observe_one(self) -> None:
        await self._observe(1)

    async def _observe(self, number: int) -> None:
        """Have one chunk of the watch arrive."""
        events, self._undelivered = self._undelivered[:number], self._undelivered[number:]
        self.client.chunks.put_nowait(events)
        await self.client.chunks.join()

    def _store(self, event: str = "") -> None:
        self._version += 1
        self._incarnation += self.stored is None
        event = event or ("MODIFIED" if self.stored else "ADDED")
        document = stored(self._gateway, str(self._incarnation), str(self._version))
        self.stored = None if event == "DELETED" else document
        self._undelivered.append(json.dumps({"type": event, "object": document}).encode())


def played(steps: Iterable[str], check: Callable[[History], None] = lambda _: None) -> History:
    """Return a history after the steps; ``check`` is called after each of them."""

    async def play() -> History:
        history = History()
        watching = asyncio.create_task(history.reflector.run())
        await history.reflector.synced.wait()
        for step in steps:
            await getattr(history, step)()
            check(history)
        known = history.client.metrics.objects["ConfigMap"]
        watching.cancel()
        await asyncio.wait({watching})
        assert known == len(history.observed.owned), "the reflector would report every deletion"
        return history

    return asyncio.run(play())


def stored(gateway: Key, uid: str, version: str, name: str = KEY.name) -> dict:
    annotations = {names.GATEWAY_ANNOTATION: gateway.name}
    metadata = {"name": name, "namespace": KEY.namespace, "labels": LABELS, "annotations": annotations}
    return {"metadata": metadata | {"uid": uid, "resourceVersion": version}}


@given(st.lists(st.sampled_from(STEPS), max_size=30))
def test_observed_version_is_the_stored_one_once_every_event_arrived(steps):
    history = played((*steps, "answer", "observe"))
    expected = {} if history.stored is None else {KEY: history.stored["metadata"]["resourceVersion"]}
    assert {key: owned.version for key, owned in history.observed.owned.items()} == expected


def check_index(history: History) -> None:
    owned = history.observed.owned
    for gateway in GATEWAYS:
        assert history.observed.owned_by(gateway) == [key for key in owned if owned[key].gateway == gateway]


@given(st.lists(st.sampled_from(STEPS), max_size=30))
def test_objects_of_a_gateway_are_indexed_after_every_step(steps):
    played((*steps, "answer", "observe"), check_index)


def test_changed_finalizers_are_in_the_batch_behind_a_newer_status():
    """Both are written at the same time; the answer about the status may come first."""
    observed = ObservedState("varnish")
    changes = ChangeCollector(observed, lambda: None)
    key = observed.class_key
    found = msgspec.convert({"metadata": {"name": key.name}, "spec": {"controllerName": "ours"}}, GatewayClass)
    first = ObservedInput(obj=found, version="1", status=b"null", is_deleting=False)
    changes.on_inputs({key: first})
    changes.drain()
    changes.record_status(key, "3", b"{}")
    changes.on_inputs({key: first._replace(version="2", finalizers=("one",))})
    assert changes.drain().stored == {key}
    assert observed.inputs[key] == first._replace(version="3", status=b"{}", finalizers=("one",))


def test_recorded_service_has_its_gateway_probed():
    notified = []
    changes = ChangeCollector(ObservedState("varnish"), lambda: notified.append(1))
    service = decode_object(json.dumps(stored(GATEWAYS[0], "u", "1", SERVICE.name)).encode())
    changes.record_owned(SERVICE, service, lambda *_: True)
    assert notified
    assert changes.drain().reachability == {GATEWAYS[0]}


def test_gateway_under_deletion_is_an_input_that_is_gone():
    """A user who deletes it expects its pods to go, even while a finalizer holds the object."""
    changes = ChangeCollector(ObservedState("varnish"), lambda: None)
    document = {"metadata": {"name": "gw", "namespace": "shop"}, "spec": {"gatewayClassName": "varnish"}}
    found = ObservedInput(msgspec.convert(document, api.Gateway), "1", b"null", is_deleting=True)
    changes.on_inputs({GATEWAYS[0]: found})
    assert changes.drain().inputs == {GATEWAYS[0]: None}


def secret(gateway: Key, key: Key, manager: str = names.GATEWAY_MANAGER) -> bytes:
    """Return a Gateway's Secret with a certificate, as the API server stores it."""
    document = stored(gateway, "u", "1", key.name)
    document["metadata"]["namespace"] = key.namespace
    document["metadata"]["managedFields"] = [{"manager": manager, "operation": "Apply"}]
    document["metadata"]["labels"] = names.labels(gateway.namespace, gateway.name, "varnish")
    contents = {names.SOURCES: b'{"a.pem":["vault/cert"]}', "a.pem": b"pair"}
    return json.dumps(document | {"data": {name: b64encode(text).decode() for name, text in contents.items()}}).encode()


OWN = Key("Secret", GATEWAYS[0].namespace, names.secret(GATEWAYS[0].name))


@pytest.mark.parametrize("how", ["watched", "answered"])
def test_certificates_of_a_gateways_secret_are_an_input(how):
    changes = ChangeCollector(ObservedState("varnish"), lambda: None)
    owned = decode_secret(secret(GATEWAYS[0], OWN))
    if how == "watched":
        changes.on_owned({OWN: owned})
    else:
        changes.record_owned(OWN, owned, lambda *_: True)
    (served,) = changes.drain().inputs.values()
    assert served.contents == {Key("Secret", "vault", "cert"): b"pair"}
    assert b"pair" not in repr((owned, served)).encode()
    changes.on_owned({OWN: None})
    assert changes.drain().inputs == {}  # it is written again
    changes.on_inputs({GATEWAYS[0]: None})
    assert changes.drain().inputs == {GATEWAYS[0]: None, served_key(GATEWAYS[0]): None}


@pytest.mark.parametrize(
    ("key", "manager"),
    [
        (OWN._replace(namespace="elsewhere"), names.GATEWAY_MANAGER),
        (OWN._replace(name="another"), names.GATEWAY_MANAGER),
        (OWN, "kubectl"),
    ],
    ids=["another namespace", "another name", "not ours"],
)
def test_secret_that_only_claims_to_be_a_gateways_is_no_input(key, manager):
    """Labels and annotations prove nothing: any user can write them."""
    changes = ChangeCollector(ObservedState("varnish"), lambda: None)
    changes.on_owned({key: decode_secret(secret(GATEWAYS[0], key, manager))})
    assert changes.drain().inputs == {}
