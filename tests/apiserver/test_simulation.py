"""The simulated API server answers as the real one does, in all that an operator depends on.

Both get the same requests; their answers are compared, except for values that vary from run to run.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from support.kube.documents import gateway, gateway_class, listener_set, parameters, route
from support.simulation.client import SimulatedClient
from support.simulation.store import Store
from varnish_gateway import errors
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.resources import RESOURCES

Document = dict[str, Any]
USER, FIRST, SECOND = "kubectl", "first", "second"
FINALIZER = "gateway-exists-finalizer.gateway.networking.k8s.io"
UNFORESEEN = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields")


class Teller:
    """Tells a story to one of the two; ``answers`` is what came back."""

    def __init__(self, client: Client | SimulatedClient, namespace: str) -> None:
        self.namespace = namespace
        self.answers: list[Any] = []
        self._client = client
        self._versions: dict[str, str] = {}

    async def apply(self, document: Document, manager: str = USER, **options: Any) -> None:
        await self._tell(self._client.apply(document, manager=manager, **options))

    async def patch_status(self, kind: str, name: str, version: str, status: Document) -> None:
        patch = {"metadata": {"resourceVersion": version}, "status": status}
        resource = RESOURCES[kind]
        options = {"manager": FIRST, "namespace": self.namespace, "subresource": "status"}
        await self._tell(self._client.patch(resource, name, patch, **options))

    async def edit(self, kind: str, name: str, patch: Document) -> None:
        """Change an object as ``kubectl edit`` does."""
        await self._tell(self._client.patch(RESOURCES[kind], name, patch, manager=USER, namespace=self.namespace))

    async def delete(self, kind: str, name: str, **conditions: str) -> None:
        namespace = self.namespace if RESOURCES[kind].namespaced else ""
        await self._tell(self._client.delete(RESOURCES[kind], name, namespace=namespace, **conditions))

    async def get(self, kind: str, name: str) -> Document:
        """Return an object; {} where there is none."""
        namespace = self.namespace if RESOURCES[kind].namespaced else ""
        return await self._tell(self._client.get(RESOURCES[kind], name, namespace=namespace))

    async def watch(self, kind: str, version: str, selector: str) -> None:
        """Tell what a watch says that goes on after a version, until there is no more."""
        path = f"{RESOURCES[kind].path(self.namespace)}?watch=true&resourceVersion={version}&timeoutSeconds=1"
        async for lines in self._client.lines(f"{path}&labelSelector={selector}", silence=5):
            events = [msgspec.json.decode(line) for line in lines]
            self.answers += [(event["type"], _foreseen(event["object"])) for event in events]

    async def _tell(self, request: Awaitable[bytes | None]) -> Document:
        try:
            answer = await request
        except errors.ApiError as refused:
            details = getattr(refused, "managers", ()), getattr(refused, "fields", ())
            self.answers.append((type(refused).__name__, refused.status, *details))
            return {}
        if answer is None:
            return {}
        document = msgspec.json.decode(answer)
        metadata = document["metadata"]
        is_news = self._versions.get(metadata["uid"]) != metadata["resourceVersion"]
        self._versions[metadata["uid"]] = metadata["resourceVersion"]
        self.answers.append(("stored" if is_news else "as before", _foreseen(document), _managers(metadata)))
        return dict(document)


def _foreseen(document: Document) -> Document:
    metadata = {name: value for name, value in document["metadata"].items() if name not in UNFORESEEN}
    content = {name: value for name, value in document.items() if name not in ("apiVersion", "kind", "metadata")}
    return {"metadata": metadata, "is ending": "deletionTimestamp" in document["metadata"], **content}


def _managers(metadata: Document) -> list[tuple[str, ...]]:
    return sorted(
        (one["manager"], one["operation"], one.get("subresource", "")) for one in metadata.get("managedFields", ())
    )


# -- what stories are about ---------------------------------------------------------------------------


def config_map(namespace: str, *owners: str, labels: Document | None = None, **data: str) -> Document:
    metadata: Document = {"name": "cm", "namespace": namespace}
    if labels:
        metadata["labels"] = labels
    if owners:
        owner = {"apiVersion": "v1", "kind": "Secret", "name": "owner", "controller": True}
        metadata["ownerReferences"] = [{**owner, "uid": uid} for uid in owners]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata} | ({"data": data} if data else {})


def changed(document: Document, **metadata: Any) -> Document:
    """Return a document with more metadata."""
    return {**document, "metadata": {**document["metadata"], **metadata}}


def stating(document: Document, status: Document, version: str = "") -> Document:
    """Return a status for an object, seen in a version."""
    metadata = dict(document["metadata"]) | ({"resourceVersion": version} if version else {})
    return {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": metadata, "status": status}


def conditions(*types: str, message: str = "") -> list[Document]:
    more = {"status": "True", "reason": "Told", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return [{"type": type_, "observedGeneration": 1, **more} for type_ in types]


# -- stories ------------------------------------------------------------------------------------------


async def two_managers_share_an_object(teller: Teller) -> None:
    cm = config_map(teller.namespace, labels={"a": "1"}, one="1")
    await teller.apply(cm, FIRST)
    await teller.apply(cm, FIRST)
    await teller.apply(config_map(teller.namespace, labels={"a": "1"}, two="2"), SECOND, metadata_only=True)
    await teller.apply(config_map(teller.namespace, labels={"a": "2"}, two="2"), SECOND)
    await teller.apply(config_map(teller.namespace, labels={"a": "2"}, two="2"), SECOND, force=True)
    await teller.apply(config_map(teller.namespace, one="1"), FIRST)
    await teller.apply(config_map(teller.namespace, one="3"), SECOND)
    await teller.apply(config_map(teller.namespace), FIRST)
    await teller.apply(config_map(teller.namespace), SECOND)


async def somebody_edits_what_is_managed(teller: Teller) -> None:
    cm = config_map(teller.namespace, labels={"a": "1", "b": "1"}, one="1")
    await teller.edit("ConfigMap", "cm", {"data": {"one": "1"}})
    await teller.apply(cm, FIRST)
    await teller.edit("ConfigMap", "cm", {"data": {"one": "1"}})
    await teller.edit("ConfigMap", "cm", {"data": {"two": "2"}})
    await teller.edit("ConfigMap", "cm", {"metadata": {"labels": None}})
    await teller.apply(cm, FIRST)
    await teller.edit("ConfigMap", "cm", {"data": {"one": "2"}})
    await teller.apply(cm, FIRST)
    await teller.edit("ConfigMap", "cm", {"data": {"one": None}})
    await teller.apply(cm, FIRST)
    await teller.edit("ConfigMap", "cm", {"metadata": {"resourceVersion": "1"}, "data": {"one": "3"}})


async def only_the_object_that_is_meant_is_written(teller: Teller) -> None:
    cm = config_map(teller.namespace, one="1")
    await teller.apply(changed(cm, uid="nobody"), FIRST)
    await teller.apply(cm, FIRST)
    stored = await teller.get("ConfigMap", "cm")
    await teller.apply(changed(cm, uid="another"), FIRST)
    await teller.apply(changed(cm, uid=stored["metadata"]["uid"], labels={"a": "1"}), FIRST)
    await teller.apply(changed(cm, resourceVersion=stored["metadata"]["resourceVersion"]), FIRST)
    await teller.delete("ConfigMap", "cm", uid="another")
    await teller.delete("ConfigMap", "cm", version=stored["metadata"]["resourceVersion"])
    await teller.get("ConfigMap", "cm")
    await teller.delete("ConfigMap", "cm", uid=stored["metadata"]["uid"])
    await teller.get("ConfigMap", "cm")
    await teller.delete("ConfigMap", "cm", uid=stored["metadata"]["uid"])


async def an_object_has_one_controller(teller: Teller) -> None:
    await teller.apply(config_map(teller.namespace, "u1", one="1"), FIRST)
    await teller.apply(config_map(teller.namespace, "u2", two="2"), SECOND)
    await teller.apply(config_map(teller.namespace, "u1", two="2"), SECOND)
    await teller.apply(config_map(teller.namespace, "u2", one="1"), FIRST)
    await teller.apply(config_map(teller.namespace, two="2"), SECOND)
    await teller.apply(config_map(teller.namespace, "u2", one="1"), FIRST)


async def a_status_is_stated_and_taken_back(teller: Teller) -> None:
    status = {"subresource": "status", "force": True}
    for one in (gateway(teller.namespace, "gw", "c"), listener_set(teller.namespace, "set", "gw")):
        both = conditions("Accepted", "Programmed")
        await teller.apply(stating(one, {"conditions": both}), FIRST, **status)
        await teller.apply(one)
        seen = (await teller.get(one["kind"], one["metadata"]["name"]))["metadata"]["resourceVersion"]
        await teller.apply(stating(one, {"conditions": both}, seen), FIRST, **status)
        await teller.apply(stating(one, {"conditions": both}, seen), FIRST, **status)
        await teller.apply(stating(one, {"conditions": both}), FIRST, **status)
        more = [*both, *conditions("Ready")]
        await teller.apply(stating(one, {"conditions": more}), FIRST, **status)
        await teller.apply(stating(one, {"conditions": conditions("Accepted", message="new")}), SECOND, **status)
        await teller.apply(stating(one, {}), FIRST, **status)
        await teller.apply(stating(one, {}), SECOND, **status)
        await teller.apply(stating(one, {}), SECOND, **status)


async def a_spec_has_generations(teller: Teller) -> None:
    await teller.apply(gateway(teller.namespace, "gw", "c"))
    await teller.apply(gateway(teller.namespace, "gw", "c"))
    await teller.apply(gateway(teller.namespace, "gw", "c", ports=(80, 8080)))
    await teller.apply(changed(gateway(teller.namespace, "gw", "c", ports=(8080,)), labels={"a": "1"}))
    await teller.apply(changed(gateway(teller.namespace, "gw", "c", ports=(8080,)), labels={"a": "2"}))


async def defaults_go_with_what_they_belong_to(teller: Teller) -> None:
    name = f"parameters-of-{teller.namespace}"
    await teller.apply(parameters(name, autoscaling={"maxReplicas": 3}))
    await teller.apply(parameters(name, replicas=2))
    await teller.apply(parameters(name, autoscaling={"minReplicas": 2, "maxReplicas": 3}))
    await teller.apply(parameters(name, autoscaling={"maxReplicas": 3}))
    await teller.delete("GatewayClassParameters", name)


async def the_status_of_a_route_is_patched_as_it_was_seen(teller: Teller) -> None:
    parent = {
        "parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "gw"},
        "controllerName": "example.com/controller",
        "conditions": conditions("Accepted"),
    }
    await teller.patch_status("HTTPRoute", "web", "1", {"parents": []})
    await teller.apply(route(teller.namespace, "web", "gw"))
    await teller.patch_status("HTTPRoute", "web", "1", {"parents": []})
    for parents in ([parent], [parent], []):
        seen = await teller.get("HTTPRoute", "web")
        await teller.patch_status("HTTPRoute", "web", seen["metadata"]["resourceVersion"], {"parents": parents})
    await teller.apply(route(teller.namespace, "web", "other"))


async def a_finalizer_holds_a_class(teller: Teller) -> None:
    made = gateway_class(f"class-of-{teller.namespace}")
    name = made["metadata"]["name"]
    await teller.apply(made)
    uid = (await teller.get("GatewayClass", name))["metadata"]["uid"]
    bare = {"apiVersion": made["apiVersion"], "kind": made["kind"], "metadata": {"name": name, "uid": uid}}
    await teller.apply(changed(bare, finalizers=[FINALIZER]), FIRST)
    await teller.apply(changed(bare, finalizers=[FINALIZER]), FIRST)
    for _ in range(2):
        await teller.delete("GatewayClass", name)
        await teller.get("GatewayClass", name)
    await teller.apply(made)
    await teller.apply(changed(bare, finalizers=[]), FIRST)
    await teller.get("GatewayClass", name)
    await teller.apply(changed(bare, finalizers=[FINALIZER]), FIRST)


async def a_watch_tells_of_what_it_selects(teller: Teller) -> None:
    kept, other = {"a": "1"}, {"a": "2"}
    await teller.apply(config_map(teller.namespace, labels=other, one="1"), FIRST)
    begin = (await teller.get("ConfigMap", "cm"))["metadata"]["resourceVersion"]
    for labels, data in ((kept, "1"), (kept, "2"), (kept, "2"), (other, "2"), (other, "3"), (kept, "3")):
        await teller.apply(config_map(teller.namespace, labels=labels, one=data), FIRST)
    await teller.delete("ConfigMap", "cm")
    await teller.apply(config_map(teller.namespace, labels=kept, one="4"), FIRST)
    await teller.watch("ConfigMap", begin, "a=1")


STORIES: tuple[Callable[[Teller], Awaitable[None]], ...] = (
    two_managers_share_an_object,
    somebody_edits_what_is_managed,
    only_the_object_that_is_meant_is_written,
    an_object_has_one_controller,
    a_status_is_stated_and_taken_back,
    a_spec_has_generations,
    defaults_go_with_what_they_belong_to,
    the_status_of_a_route_is_patched_as_it_was_seen,
    a_finalizer_holds_a_class,
    a_watch_tells_of_what_it_selects,
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_the_simulation_answers_as_a_real_api_server_does(story, client, namespace):
    real = Teller(client, namespace)
    simulated = Teller(SimulatedClient(Store(), random.Random(1)), namespace)
    await story(real)
    await story(simulated)
    assert simulated.answers == real.answers
