"""What a cluster at rest has to look like, written down by hand.

In:   the documents of a store, the names of pods that don't answer.
Out:  sentences about everything that is wrong; none if all is well.
Promise: no code of the operator takes part. The rules are those of the Gateway API and of docs/concepts/operator.md,
for the few objects that Turbulence makes: ports differ or hostnames do, so that listeners never conflict.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

Document = dict[str, Any]
Documents = Mapping[tuple[str, str, str], Document]

CONTROLLER = "varnish-software.com/gateway"
MANAGED_BY = "app.kubernetes.io/managed-by"
OF_GATEWAY = "gateway.networking.k8s.io/gateway-name"
OF_CLASS = "gateway.networking.k8s.io/gateway-class-name"
FINALIZER = "gateway-exists-finalizer.gateway.networking.k8s.io"
GENERATION = "varnish.io/gateway-generation"
ONE_EACH = ("Deployment", "Service", "ServiceAccount", "Secret")
TOLERATED = 10


class Oracle(NamedTuple):
    """``lost`` are pods that don't answer. The names of others tell that they are silent, or failing."""

    documents: Documents
    lost: Collection[str] = ()

    def problems(self) -> list[str]:
        """Return what is wrong."""
        return [
            *self._classes(),
            *(problem for gateway in self._of("Gateway") for problem in self._gateway(gateway)),
            *(problem for one in self._of("ListenerSet") for problem in self._listener_set(one)),
            *(problem for route in self._of("HTTPRoute") for problem in self._route(route)),
            *(problem for policy in self._of("VarnishCachePolicy") for problem in self._cache_policy(policy)),
            *(problem for one in self._of("VarnishCacheInvalidation") for problem in self._invalidation(one)),
            *self._orphans(),
        ]

    # -- classes ----------------------------------------------------------------------------------

    def _classes(self) -> Iterator[str]:
        used = Counter(gateway["spec"]["gatewayClassName"] for gateway in self._of("Gateway"))
        for one in self._of("GatewayClass"):
            name = one["metadata"]["name"]
            if one["spec"]["controllerName"] != CONTROLLER or "deletionTimestamp" in one["metadata"]:
                continue
            yield from self._has(one, "Accepted", self._is_valid(name))
            if (FINALIZER in one["metadata"].get("finalizers", ())) != bool(used[name]):
                yield f"class {name} of {used[name]} Gateways: finalizers are {one['metadata'].get('finalizers')}"

    def _is_valid(self, class_name: str) -> bool:
        """Whether a class has the parameters that it names, and these the user VCL that they name."""
        found = self.documents.get(("GatewayClass", "", class_name))
        if found is None:
            return False
        ref = found["spec"].get("parametersRef")
        if ref is None:
            return True
        parameters = self.documents.get(("GatewayClassParameters", "", ref["name"]))
        if parameters is None:
            return False
        vcl = parameters["spec"].get("userVCLConfigMapRef")
        return vcl is None or ("ConfigMap", vcl["namespace"], vcl["name"]) in self.documents

    def _is_ours(self, gateway: Document | None) -> bool:
        if gateway is None:
            return False
        found = self.documents.get(("GatewayClass", "", gateway["spec"]["gatewayClassName"]))
        return found is not None and found["spec"]["controllerName"] == CONTROLLER

    # -- Gateways ---------------------------------------------------------------------------------

    def _gateway(self, gateway: Document) -> Iterator[str]:
        metadata, class_name = gateway["metadata"], gateway["spec"]["gatewayClassName"]
        if not self._is_ours(gateway):
            if any(one.get("reason") != "Pending" for one in gateway["status"]["conditions"]):
                yield f"{_name(gateway)} isn't ours and has a status: {gateway['status']}"
            return
        if not self._is_valid(class_name):
            return
        yield from self._has(gateway, "Accepted", True)
        yield from self._has(gateway, "Programmed", self._is_programmed(gateway))
        yield from self._counts(gateway)
        owned = [one for one in self._generated() if _belongs(one, gateway)]
        kinds = Counter(one["kind"] for one in owned)
        for kind in ONE_EACH:
            if kinds[kind] != 1:
                yield f"{_name(gateway)} has {kinds[kind]} objects of kind {kind}"
        for one in owned:
            owners = [owner["uid"] for owner in one["metadata"].get("ownerReferences", ())]
            is_away = one["metadata"]["namespace"] != metadata["namespace"]
            if owners != ([] if is_away else [metadata["uid"]]):
                yield f"{_name(one)} has the owners {owners}, and {_name(gateway)} is {metadata['uid']}"
        yield from self._configuration(gateway, [one for one in owned if one["kind"] == "ConfigMap"])
        yield from self._ports(gateway, [one for one in owned if one["kind"] == "Deployment"])

    def _is_programmed(self, gateway: Document) -> bool:
        """Whether enough ready pods of a Gateway answer without a problem. All that is stored has its address."""
        pods = [
            pod["metadata"]["name"]
            for pod in self._of("Pod")
            if _belongs(pod, gateway) and {"type": "Ready", "status": "True"} in pod["status"]["conditions"]
        ]
        bad = [name for name in pods if name in self.lost or "silent" in name or "failing" in name]
        return bool(pods) and len(bad) <= len(pods) // TOLERATED

    def _counts(self, gateway: Document) -> Iterator[str]:
        """Each listener counts the routes that name its Gateway as a parent."""
        attached = [route for route in self._of("HTTPRoute") if _name(gateway) in _parents(route)]
        for listener in gateway["status"].get("listeners", ()):
            if listener["attachedRoutes"] != len(attached):
                yield f"{_name(gateway)}, {listener['name']}: {listener['attachedRoutes']} of {len(attached)} routes"

    def _configuration(self, gateway: Document, maps: list[Document]) -> Iterator[str]:
        """Yield what is wrong with shards: the index names all of them, and they hold each attached route once."""
        main = [one for one in maps if "main.vcl" in one["data"]]
        if len(main) != 1:
            yield f"{_name(gateway)} has {len(main)} ConfigMaps with VCL"
            return
        if main[0]["metadata"]["annotations"].get(GENERATION) != str(gateway["metadata"]["generation"]):
            yield f"{_name(main[0])} is of another generation than {_name(gateway)}"
        shards = [json.loads(one["data"]["routing.json"]) for one in maps]
        index = json.loads(main[0]["data"].get("shards.json", '{"shards": [""]}'))["shards"]
        if sorted(shard.get("shard", 0) for shard in shards) != list(range(len(index))):
            yield f"{_name(gateway)}: the index has {len(index)} shards, and there are {len(shards)}"
        held = sorted(route["name"] for shard in shards for route in shard.get("routes", ()))
        named = sorted(
            route["metadata"]["name"] for route in self._of("HTTPRoute") if _name(gateway) in _parents(route)
        )
        if held != named:
            yield f"{_name(gateway)} serves {held}, and its routes are {named}"
        yield from self._understood(gateway, [route for shard in shards for route in shard.get("routes", ())])

    def _understood(self, gateway: Document, routes: list[Document]) -> Iterator[str]:
        """Yield what pods of the previous version are sent too much, and pods of this one too little."""
        pods, telling = self._pods(gateway), self._telling(gateway)
        sent = {rule["retry"]["attempts"] for route in routes for rule in route["rules"] if "retry" in rule}
        are_old = ["old" in name for name in telling]
        if any(are_old) and sent - {20}:
            yield f"{_name(gateway)} sends {sent} retries to old pods"
        elif pods and len(telling) == len(pods) and not any(are_old) and sent - {1000}:
            yield f"{_name(gateway)} sends {sent} retries to new pods"

    def _shards(self, gateway: Document) -> list[Document]:
        maps = [one for one in self._generated() if one["kind"] == "ConfigMap" and _belongs(one, gateway)]
        return [json.loads(one["data"]["routing.json"]) for one in maps]

    def _pods(self, gateway: Document) -> list[str]:
        return [pod["metadata"]["name"] for pod in self._of("Pod") if _belongs(pod, gateway)]

    def _telling(self, gateway: Document) -> list[str]:
        """Return the pods that answer."""
        return [name for name in self._pods(gateway) if name not in self.lost and "silent" not in name]

    def _ports(self, gateway: Document, deployments: list[Document]) -> Iterator[str]:
        """Yield ports of listeners that pods don't open. They may have more: a port closes with the next change.

        Pods of this version open the ports of ListenerSets themselves, when the routing has the listeners. It has no
        HTTPS listener without its certificate.
        """
        sets = [one for one in self._of("ListenerSet") if self._gateway_of(one) is gateway]
        owners = [gateway, *(sets if "allowedListeners" in gateway["spec"] else ())]
        listeners = [listener for owner in owners for listener in owner["spec"]["listeners"]]
        ports = {listener["port"] for listener in listeners}
        plain = {listener["port"] for listener in listeners if listener["protocol"] == "HTTP"}
        sent = {one["port"] for shard in self._shards(gateway) for one in shard.get("listeners", ())}
        if plain - sent:
            yield f"{_name(gateway)} has listeners on {plain - sent}, and its routing has none there"
        if not any("old" in name for name in self._telling(gateway)):
            ports = {listener["port"] for listener in gateway["spec"]["listeners"]}
        for one in deployments:
            listen = next(
                variable["value"]
                for variable in one["spec"]["template"]["spec"]["containers"][0]["env"]
                if variable["name"] == "VARNISH_LISTEN"
            )
            if closed := [port for port in ports if f"=:{port}," not in listen]:
                yield f"{_name(gateway)} has listeners on {closed}, and its pods listen on {listen}"

    # -- ListenerSets and routes --------------------------------------------------------------------

    def _listener_set(self, one: Document) -> Iterator[str]:
        gateway = self._gateway_of(one)
        if gateway is not None and self._is_ours(gateway) and self._is_valid(gateway["spec"]["gatewayClassName"]):
            is_allowed = "allowedListeners" in gateway["spec"]
            yield from self._has(one, "Accepted", is_allowed)
            yield from self._has(one, "Programmed", is_allowed and self._is_programmed(gateway))

    def _route(self, route: Document) -> Iterator[str]:
        """Yield what is wrong with a route's status. No ListenerSet has the hostname of a route."""
        entries = {
            f"{entry['parentRef'].get('kind', 'Gateway')} {entry['parentRef']['name']}": entry
            for entry in route.get("status", {}).get("parents", ())
            if entry["controllerName"] == CONTROLLER
        }
        parents = {parent for parent in _parents(route) if self._is_parent(parent, route)}
        if entries.keys() != parents:
            yield f"{_name(route)} has the parents {sorted(parents)}, and its status speaks of {sorted(entries)}"
            return
        for parent, entry in entries.items():
            if not self._is_valid(self._parent_gateway(parent, route)["spec"]["gatewayClassName"]):
                continue
            yield from self._has({**route, "status": entry}, "Accepted", parent.startswith("Gateway "))
            yield from self._has({**route, "status": entry}, "ResolvedRefs", self._is_resolved(route))

    def _is_resolved(self, route: Document) -> bool:
        [backend] = route["spec"]["rules"][0]["backendRefs"]
        home = route["metadata"]["namespace"]
        namespace = backend.get("namespace", home)
        is_granted = namespace == home or ("ReferenceGrant", namespace, "grant") in self.documents
        needs_tls = any(
            (policy["metadata"]["namespace"], target["name"]) == (namespace, backend["name"])
            for policy in self._of("BackendTLSPolicy")
            for target in policy["spec"]["targetRefs"]
        )
        return is_granted and ("Service", namespace, backend["name"]) in self.documents and not needs_tls

    def _cache_policy(self, policy: Document) -> Iterator[str]:
        """Yield what is wrong with a policy's status: an entry for each Gateway, or for a target that isn't there."""
        entries = {
            f"{entry['ancestorRef']['kind']} {entry['ancestorRef']['name']}": entry
            for entry in policy.get("status", {}).get("ancestors", ())
            if entry["controllerName"] == CONTROLLER
        }
        ref, namespace = policy["spec"]["targetRef"], policy["metadata"]["namespace"]
        target = self.documents.get((ref["kind"], namespace, ref["name"]))
        ancestors = {f"{ref['kind']} {ref['name']}"} if target is None else self._gateways_of(target)
        if entries.keys() != ancestors:
            yield f"{_name(policy)} is about {sorted(ancestors)}, and its status speaks of {sorted(entries)}"
            return
        for entry in entries.values():
            yield from self._has({**policy, "status": entry}, "Accepted", target is not None)

    def _invalidation(self, one: Document) -> Iterator[str]:
        """Yield what is wrong with an invalidation: its phase has ended, and only pods that don't answer are open."""
        metadata, status = one["metadata"], one.get("status", {})
        gateway = self.documents.get(("Gateway", metadata["namespace"], one["spec"]["gatewayRef"]["name"]))
        if gateway is not None and not self._is_ours(gateway):
            return
        phase = status.get("phase")
        if phase not in ("Complete", "Failed") or status["observedGeneration"] != metadata["generation"]:
            yield f"{_name(one)}: its phase is {phase}"
            return
        pods = self._pods(gateway) if gateway is not None else []
        secret = ("Secret", metadata["namespace"], f"{one['spec']['gatewayRef']['name']}-vgw-tls")
        has_token = secret in self.documents  # an invalid class has pods without one
        for result in status.get("podResults", ()):
            name, is_open = result["podName"], result["reason"] == "Unanswered"
            is_silent = name in pods and (name in self.lost or "silent" in name)
            if is_open and gateway is not None and has_token and not is_silent:
                yield f"{_name(one)}: {name} is {result['reason']}, although it answers or is gone"
            if is_open and phase == "Complete":
                yield f"{_name(one)}: it is complete without {name}"

    def _gateways_of(self, target: Document) -> set[str]:
        """Return the Gateways of ours that a policy's target belongs to."""
        gateways = [target]
        if target["kind"] == "HTTPRoute":
            gateways = [self._parent_gateway(parent, target) for parent in _parents(target)]
        return {_name(gateway) for gateway in gateways if self._is_ours(gateway)}

    def _is_parent(self, parent: str, route: Document) -> bool:
        return self._is_ours(self._parent_gateway(parent, route))

    def _parent_gateway(self, parent: str, route: Document) -> Document | None:
        kind, name = parent.split()
        found = self.documents.get((kind, route["metadata"]["namespace"], name))
        return self._gateway_of(found) if found is not None and kind == "ListenerSet" else found

    def _gateway_of(self, listener_set: Document) -> Document | None:
        namespace, name = listener_set["metadata"]["namespace"], listener_set["spec"]["parentRef"]["name"]
        return self.documents.get(("Gateway", namespace, name))

    # -- objects ----------------------------------------------------------------------------------

    def _orphans(self) -> Iterator[str]:
        """Every generated object belongs to a Gateway of ours, and RoleBindings elsewhere to routes that lead there."""
        gateways = [gateway for gateway in self._of("Gateway") if self._is_ours(gateway)]
        for one in self._generated():
            owners = [gateway for gateway in gateways if _belongs(one, gateway)]
            if not owners:
                yield f"{_name(one)} in {one['metadata']['namespace']} belongs to no Gateway"

    def _generated(self) -> list[Document]:
        kinds = ("Deployment", "Service", "ServiceAccount", "Secret", "ConfigMap", "Role", "RoleBinding")
        found = [one for kind in kinds for one in self._of(kind)]
        return [one for one in found if one["metadata"].get("labels", {}).get(MANAGED_BY) == "varnish-gateway"]

    def _of(self, kind: str) -> list[Document]:
        return [document for key, document in self.documents.items() if key[0] == kind]

    def _has(self, document: Document, type_: str, is_true: bool) -> Iterator[str]:
        """Yield what is wrong with a condition of the newest generation."""
        conditions = document.get("status", {}).get("conditions", ())
        found = next((one for one in conditions if one["type"] == type_), None)
        if found is None:
            yield f"{_name(document)} has no {type_}"
        elif found["status"] != str(is_true):
            yield f"{_name(document)}: {type_} is {found['status']} ({found['reason']}: {found['message']})"
        elif found.get("observedGeneration") != document["metadata"]["generation"]:
            yield f"{_name(document)}: {type_} is of generation {found.get('observedGeneration')}"


def _belongs(one: Document, gateway: Document) -> bool:
    labels = one["metadata"].get("labels", {})
    names = gateway["metadata"]["name"], gateway["spec"]["gatewayClassName"]
    return (labels.get(OF_GATEWAY), labels.get(OF_CLASS)) == names


def _parents(route: Document) -> list[str]:
    return [f"{ref.get('kind', 'Gateway')} {ref['name']}" for ref in route["spec"]["parentRefs"]]


def _name(document: Document) -> str:
    return f"{document['kind']} {document['metadata']['name']}"
