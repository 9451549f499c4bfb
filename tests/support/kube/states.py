"""What a cluster holds, and what it ought to hold.

``versions``    the resource versions of all that an operator may write: nothing was written where they stay
``stored``      routing, VCL and statuses of a class as they are in the cluster, shards put together by their index;
                of routes those in the namespaces of the class's Gateways
``translated``  the same, translated from scratch out of all objects that the API server lists
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from cluster.apiserver.server import Cluster
from support.kube.documents import OURS
from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.api.meta import key_of
from varnish_gateway.emit import names
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import wire
from varnish_gateway.kinds import KINDS, Use
from varnish_gateway.kube.resources import RESOURCES
from varnish_gateway.translate import Translator

READ = (
    api.GatewayClass,
    api.GatewayClassParameters,
    api.Gateway,
    api.ListenerSet,
    api.HTTPRoute,
    api.ReferenceGrant,
    api.BackendTLSPolicy,
    api.VarnishCachePolicy,
    api.Service,
    api.Namespace,
    api.ConfigMap,
)
WRITTEN = tuple(kind.name for kind in KINDS.values() if kind.uses & (Use.STATUS | Use.OWNED))
Document = dict[str, Any]
State = dict[str, Any]


class Unfinished(Exception):
    """An operator has something left to write."""


def listed(cluster: Cluster, kind: str) -> list[Document]:
    items: list[Document] = cluster.request("GET", RESOURCES[kind].path())["items"]
    return items


def versions(cluster: Cluster) -> dict[tuple[str, str, str], str]:
    """Return the resource version of every object of the kinds that operators write."""
    return {
        (kind, item["metadata"].get("namespace", ""), item["metadata"]["name"]): item["metadata"]["resourceVersion"]
        for kind in WRITTEN
        for item in listed(cluster, kind)
    }


# -- what is there ----------------------------------------------------------------------------


def stored(cluster: Cluster, class_name: str) -> State:
    maps = {(m["metadata"]["namespace"], m["metadata"]["name"]): m for m in listed(cluster, "ConfigMap")}
    state: State = {}
    gateways = [one for one in listed(cluster, "Gateway") if one["spec"]["gatewayClassName"] == class_name]
    for gateway in gateways:
        metadata = gateway["metadata"]
        main = maps[metadata["namespace"], names.config_map(metadata["name"])]
        state |= _stored_gateway(gateway, main, list(_shards(maps, metadata["namespace"], metadata["name"])))
    namespaces = {gateway["metadata"]["namespace"] for gateway in gateways}
    for listener_set in listed(cluster, "ListenerSet"):
        is_told = listener_set["status"]["conditions"][0]["reason"] != "Pending"
        if listener_set["metadata"]["namespace"] in namespaces and is_told:
            state[f"status {_name(listener_set)}"] = _owner_status(listener_set["status"])
    for route in listed(cluster, "HTTPRoute"):
        if route["metadata"]["namespace"] in namespaces:
            parents = [p for p in route.get("status", {}).get("parents", ()) if p["controllerName"] == OURS]
            state[f"status {_name(route)}"] = _plain(parents)
    for policy in listed(cluster, "BackendTLSPolicy"):
        if ours := [one for one in policy.get("status", {}).get("ancestors", ()) if _is_of(one, gateways)]:
            state[f"status {_name(policy)}"] = _plain(ours)
    return state


def _is_of(ancestor: Document, gateways: list[Document]) -> bool:
    """Whether an entry of a policy's status is about one of the Gateways."""
    ref = ancestor["ancestorRef"]
    found = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in gateways}
    return ancestor["controllerName"] == OURS and (ref["namespace"], ref["name"]) in found


def _shards(maps: dict[tuple[str, str], Document], namespace: str, gateway: str) -> Iterator[wire.Routing]:
    """Yield the shards as a reader finds them; each must be the one that the index names."""
    main = maps[namespace, names.config_map(gateway)]
    data, labels = main["data"], main["metadata"].get("labels")
    index = msgspec.json.decode(data["shards.json"], type=wire.Index).shards if "shards.json" in data else ("",)
    for number, digest in enumerate(index):
        stored_map = maps[namespace, names.config_map(gateway, number)]
        text = stored_map["data"]["routing.json"]
        shard = msgspec.json.decode(text, type=wire.Routing)
        if (shard.shard, shard.shards) != (number, len(index)) or (number and content_hash(text.encode()) != digest):
            raise Unfinished(f"shard {number} of {gateway} is not the one that the index names")
        if stored_map["metadata"].get("labels") != labels:
            raise Unfinished(f"shard {number} of {gateway} has labels of its own")
        yield shard
    if (namespace, names.config_map(gateway, len(index))) in maps:
        raise Unfinished(f"{gateway} has a shard too many")


def _stored_gateway(gateway: Document, main: Document, shards: list[wire.Routing]) -> State:
    name, status = _name(gateway), gateway["status"]
    routes = [f"{route.namespace}/{route.name}" for shard in shards for route in shard.routes]
    if len(routes) != len(set(routes)):
        raise Unfinished(f"a route of {name} is in two shards")
    return {
        f"listeners {name}": shards[0].listeners,
        f"routes {name}": {f"{one.namespace}/{one.name}": one for shard in shards for one in shard.routes},
        f"vcl {name}": main["data"]["main.vcl"],
        f"generation {name}": main["metadata"]["annotations"][names.GENERATION],
        f"status {name}": _owner_status(status),
    }


# -- what ought to be there -------------------------------------------------------------------


def translated(cluster: Cluster, class_name: str) -> State:
    objects = {key_of(obj): obj for kind in READ for obj in _typed(cluster, kind)}
    translator = Translator(class_name=class_name, only_class=True, addresses="load-balancer")
    delta = translator.update(objects)
    state: State = {}
    for key, changes in delta.gateways.items():
        assert changes is not None
        assert not isinstance(changes.user_vcl, ir.UserVclUnavailable)
        state |= {
            f"listeners {key}": changes.listeners,
            f"routes {key}": {f"{k.namespace}/{k.name}": route for k, route in changes.routes.items() if route},
            f"vcl {key}": main_vcl(changes.user_vcl or None),
            f"generation {key}": str(objects[key].metadata.generation),
            f"status {key}": _owner_status(_json(delta.statuses[key])),
        }
    namespaces = {key.namespace for key in delta.gateways}
    for key in objects:
        if key.kind == "HTTPRoute" and key.namespace in namespaces:
            status = delta.statuses.get(key)
            state[f"status {key}"] = _plain(_json(status)["parents"]) if status else []
        if key.kind == "BackendTLSPolicy" and (policy_status := delta.statuses.get(key)):
            state[f"status {key}"] = _plain(_json(policy_status)["ancestors"])
        if key.kind == "ListenerSet" and key.namespace in namespaces and delta.statuses.get(key):
            state[f"status {key}"] = _owner_status(_json(delta.statuses[key]))
    return state


def is_as_translated(cluster: Cluster, class_name: str) -> bool:
    """Whether all is there as it ought to be; while an operator works it may not."""
    try:
        return stored(cluster, class_name) == translated(cluster, class_name)
    except (KeyError, Unfinished):
        return False


def _typed(cluster: Cluster, kind: type[api.Object]) -> list[api.Object]:
    return [msgspec.convert(item, kind) for item in listed(cluster, kind.kind)]


def _json(status: ir.Status) -> Document:
    plain: Document = msgspec.json.decode(msgspec.json.encode(status))
    return plain


def _owner_status(status: Document) -> Document:
    """Return what translation alone decides: not whether it is programmed, and no addresses."""
    listeners = {one["name"]: {**one, "conditions": _decided(one["conditions"])} for one in status.get("listeners", ())}
    counted = status.get("attachedListenerSets", 0)
    return {"conditions": _decided(status["conditions"]), "listeners": listeners, "sets": counted}


def _decided(conditions: list[Document]) -> list[Document]:
    kept = [condition for condition in _plain(conditions) if condition["type"] != "Programmed"]
    return sorted(kept, key=lambda condition: str(condition["type"]))


def _plain(value: Any) -> Any:
    """Return a status without times."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items() if name != "lastTransitionTime"}
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _name(document: Document) -> Key:
    metadata = document["metadata"]
    return Key(document["kind"], metadata["namespace"], metadata["name"])
