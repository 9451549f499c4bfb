"""Answers to our own writes and what watches tell, in any order."""

import json
from contextlib import ExitStack
from types import SimpleNamespace

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from varnish_gateway.api import GatewayClass, Key
from varnish_gateway.emit import names
from varnish_gateway.kube.metrics import Metrics
from varnish_gateway.operator.observe.owned import decode_map
from varnish_gateway.operator.observe.sources import Seen, Sources

KEY = Key("ConfigMap", "shop", "gw-vcl")
LABELS = names.labels("shop", "gw", "varnish")
GATEWAYS = [Key("Gateway", "shop", name) for name in ("gw", "other")]
STEPS = ("write", "answer", "delete", "touch", "move", "hear", "hear_one")


class Story:
    """One object, as it is stored, and as it is told to the operator: now or later, in chunks of any size."""

    def __init__(self) -> None:
        self.sources = Sources(SimpleNamespace(metrics=Metrics()), "varnish")
        self.reflector = self.sources._owned_reflectors["ConfigMap"]
        self.stored: dict | None = None
        self._gateway = GATEWAYS[0]
        self._version = self._made = 0
        self._untold: list[bytes] = []
        self._answer: bytes | None = None
        self._awaiting = ExitStack()

    def write(self) -> None:
        """Have a write of ours reach the API server; we do one at a time."""
        self.answer()
        self._awaiting.enter_context(self.sources.awaiting(KEY))
        self._store()
        self._answer = json.dumps(self.stored).encode()

    def answer(self) -> None:
        if self._answer is not None:
            self.sources.answered(KEY, decode_map(self._answer))
        self._answer = None
        self._awaiting.close()

    def touch(self) -> None:
        """Have it changed by somebody else."""
        if self.stored is not None:
            self._store()

    def move(self) -> None:
        """Have it changed so that it is another Gateway's."""
        self._gateway = GATEWAYS[1 - GATEWAYS.index(self._gateway)]
        self.touch()

    def delete(self) -> None:
        if self.stored is not None:
            self._store("DELETED")

    def hear(self) -> None:
        self._hear(len(self._untold))

    def hear_one(self) -> None:
        self._hear(1)

    def _hear(self, number: int) -> None:
        told, self._untold = self._untold[:number], self._untold[number:]
        self.reflector._take(told)

    def _store(self, what: str = "") -> None:
        self._version += 1
        self._made += self.stored is None
        annotations = {names.GATEWAY_ANNOTATION: self._gateway.name}
        metadata = {"name": KEY.name, "namespace": KEY.namespace, "labels": LABELS, "annotations": annotations}
        versions = {"uid": str(self._made), "resourceVersion": str(self._version)}
        document = {"metadata": metadata | versions}
        what = what or ("MODIFIED" if self.stored else "ADDED")
        self.stored = None if what == "DELETED" else document
        self._untold.append(json.dumps({"type": what, "object": document}).encode())


@given(st.lists(st.sampled_from(STEPS), max_size=30))
def test_in_the_end_we_know_what_is_stored(steps):
    story = Story()
    for step in (*steps, "answer", "hear"):
        getattr(story, step)()
    expected = {} if story.stored is None else {KEY: story.stored["metadata"]["resourceVersion"]}
    assert {key: live.version for key, live in story.sources.live.items()} == expected
    assert story.reflector._known == expected


@given(st.lists(st.sampled_from(STEPS), max_size=30))
def test_what_there_is_of_a_gateway_is_known_at_any_time(steps):
    story = Story()
    for step in steps:
        getattr(story, step)()
        live = story.sources.live
        for gateway in GATEWAYS:
            assert story.sources.live_of(gateway) == [key for key in live if live[key].gateway == gateway]
    assert len(story.sources._live_of) == len(story.sources.live)


async def test_other_finalizers_are_news_also_behind_a_newer_status():
    """They are written at the same time; the answer about the status may come first."""
    sources = Sources(SimpleNamespace(metrics=Metrics()), "varnish")
    key = sources.class_key
    found = msgspec.convert({"metadata": {"name": key.name}, "spec": {"controllerName": "ours"}}, GatewayClass)
    first = Seen(obj=found, version="1", status=b"null", is_ending=False)
    sources._take_stated({key: first})
    await sources.batch()
    sources.answered_status(key, "3", b"{}")
    sources._take_stated({key: first._replace(version="2", finalizers=("one",))})
    assert (await sources.batch()).stated == {key}
    assert sources.stated[key] == first._replace(version="3", status=b"{}", finalizers=("one",))
