"""Changes of all kinds to a simulated cluster, by chance.

In:   a Store, and a source of chance. The same chance makes the same changes.
Out:  Gateways, ListenerSets, routes, policies, invalidations, classes, parameters, user VCL, certificates, Services
      and pods made, changed, deleted and created again within moments; generated objects deleted and edited; watches
      broken, history forgotten, kinds taken away; the lead handed over; an overloaded API server, admission that
      rejects writes, lost nodes. ``log`` records what was done and when.

There are few names, so that deleted objects are often created again before all watchers know of the deletion.
"""

import random
from collections.abc import Callable, Sequence

from support.kube.churn import user_vcl
from support.kube.documents import (
    backend_tls_policy,
    cache_policy,
    gateway,
    invalidation,
    listener_set,
    reference_grant,
    route,
    service,
)
from support.simulation.documents import (
    AWAY,
    BACKEND,
    CERTIFICATE,
    HOME,
    OTHERS,
    OURS,
    STRANGERS,
    Document,
    basics,
    certificate,
    class_named,
    class_parameters,
    https,
    pod,
    with_parents,
)
from support.simulation.operators import FAILING, OLD, SILENT, Turn
from support.simulation.store import Store, key_of
from support.simulation.virtualtime import now
from varnish_gateway.api import Key
from varnish_gateway.emit import names

GATEWAYS = ("g1", "g2")
SETS = ("s1", "s2")
ROUTES = tuple(f"r{number}" for number in range(14))
PERSISTENT = ROUTES[:5]
"""Routes with more retries than pods of the previous version understand."""
REGEXES = ROUTES[3:8]
"""Routes with regular expressions, which operators compile on a slow thread."""
INVALIDATIONS = tuple(f"i{number}" for number in range(6))
MAPS = ("vcl", "vcl-2")
EDITOR = "kubectl-edit"
PORTS = ((80,), (80, 8080), (8080,))
SET_PORTS = (80, 8090, 8091)
SIZES: tuple[Document, ...] = ({"replicas": 1}, {"replicas": 2}, {"autoscaling": {"maxReplicas": 3}})
OPTIONAL = (
    "BackendTLSPolicy",
    "Gateway",
    "HTTPRoute",
    "ListenerSet",
    "ReferenceGrant",
    "VarnishCacheInvalidation",
    "VarnishCachePolicy",
)
"""Kinds that are not served for a while."""
DENIED = ("ConfigMap", "Deployment", "Gateway", "HTTPRoute", "Role", "RoleBinding", "Secret", "Service")
"""Kinds whose writes by operators are rejected for a while."""


class Turbulence:
    """``turns`` are those of the operators of which one leads."""

    def __init__(self, store: Store, chance: random.Random, turns: Sequence[Turn]) -> None:
        self.log: list[str] = []
        self._store = store
        self._chance = chance
        self._turns = turns
        self._weights: dict[Callable[[], str], int] = {
            self._put_gateway: 2,
            self._remake_gateway: 1,
            self._drop_gateway: 1,
            self._put_set: 1,
            self._remake_set: 1,
            self._drop_set: 1,
            self._put_route: 2,
            self._remake_route: 1,
            self._drop_route: 1,
            self._put_all_routes: 1,
            self._drop_many_routes: 1,
            self._remake_class: 1,
            self._drop_class: 1,
            self._put_parameters: 1,
            self._drop_parameters: 1,
            self._put_vcl: 1,
            self._drop_vcl: 1,
            self._put_certificate: 1,
            self._drop_certificate: 1,
            self._put_service: 1,
            self._drop_service: 1,
            self._toggle_grant: 1,
            self._toggle_policy: 1,
            self._toggle_cache_policy: 2,
            self._toggle_invalidation: 2,
            self._toggle_pod: 1,
            self._drop_generated: 2,
            self._unlabel_generated: 1,
            self._scale: 1,
            self._hand_over: 1,
            self._toggle_kind: 1,
            self._break_watches: 1,
            self._compact: 1,
            self._storm: 2,
            self._deny: 2,
            self._lose_node: 1,
            self._toggle_many_pods: 1,
        }

    def begin(self) -> None:
        """Have what a cluster has at the start, and some Gateways and pods already."""
        self._store.put(*basics())
        for name in self._chance.sample(GATEWAYS, self._chance.randint(0, 2)):
            self._store.put(gateway(HOME, name, OURS))
        for _ in range(3):
            self._toggle_pod()
        if self._chance.random() < 0.2:
            self._storm()

    def change(self) -> None:
        """Make one change."""
        do = self._chance.choices(list(self._weights), weights=list(self._weights.values()))[0]
        when = now()
        self.log.append(f"{when:.3f} {do.__name__.strip('_').replace('_', ' ')}: {do()}")

    def end(self) -> None:
        """Have every kind served, both classes of ours, and no trouble: all that is left now is to be dealt with.

        Lost nodes stay lost.
        """
        self._store.faults.clear()
        self._store.bring_back(*OPTIONAL)
        for name in (OURS, OTHERS):
            if Key("GatewayClass", "", name) not in self._store.documents:
                self._store.put(class_named(name))

    # -- Gateways and ListenerSets ------------------------------------------------------------

    def _some_gateway(self) -> Document:
        class_name = self._chance.choice((OURS, OURS, OURS, OURS, OTHERS, OTHERS, STRANGERS))
        more: Document = {"allowedListeners": {"namespaces": {"from": "All"}}}
        if self._chance.random() < 0.3:
            more["infrastructure"] = {"labels": {"edition": self._chance.choice("12")}}
        made = gateway(HOME, self._chance.choice(GATEWAYS), class_name, ports=self._chance.choice(PORTS), **more)
        if self._chance.random() < 0.3:
            made["spec"]["listeners"].append(https())
        return made

    def _put_gateway(self) -> str:
        return self._put(self._some_gateway())

    def _remake_gateway(self) -> str:
        return self._remake(self._some_gateway())

    def _drop_gateway(self) -> str:
        return self._drop(Key("Gateway", HOME, self._chance.choice(GATEWAYS)))

    def _some_set(self) -> Document:
        name, parent = self._chance.choice(SETS), self._chance.choice(GATEWAYS)
        return listener_set(HOME, name, parent, port=self._chance.choice(SET_PORTS))

    def _put_set(self) -> str:
        return self._put(self._some_set())

    def _remake_set(self) -> str:
        return self._remake(self._some_set())

    def _drop_set(self) -> str:
        return self._drop(Key("ListenerSet", HOME, self._chance.choice(SETS)))

    # -- routes -------------------------------------------------------------------------------

    def _some_route(self) -> Document:
        parents = [*(("Gateway", name) for name in GATEWAYS), *(("ListenerSet", name) for name in SETS)]
        made = self._route(self._chance.choice(ROUTES))
        return with_parents(made, *self._chance.sample(parents, self._chance.randint(1, 2)))

    def _route(self, name: str, parent: str = GATEWAYS[0]) -> Document:
        made = route(HOME, name, parent, backend={"name": BACKEND, "namespace": self._chance.choice((HOME, AWAY))})
        if name in PERSISTENT:
            made["spec"]["rules"][0]["retry"] = {"attempts": 1000}
        if name in REGEXES:
            pattern = f"/edition/{self._chance.randint(1, 3)}/[a-z]+"
            made["spec"]["rules"][0]["matches"] = [{"path": {"type": "RegularExpression", "value": pattern}}]
        return made

    def _put_route(self) -> str:
        return self._put(self._some_route())

    def _remake_route(self) -> str:
        return self._remake(self._some_route())

    def _drop_route(self) -> str:
        return self._drop(Key("HTTPRoute", HOME, self._chance.choice(ROUTES)))

    def _put_all_routes(self) -> str:
        parent = self._chance.choice(GATEWAYS)
        self._store.put(*(self._route(name, parent) for name in ROUTES))
        return parent

    def _drop_many_routes(self) -> str:
        count = self._chance.randint(1, len(ROUTES))
        for name in ROUTES[:count]:
            self._store.delete(Key("HTTPRoute", HOME, name))
        return str(count)

    # -- classes and what they name -----------------------------------------------------------

    def _remake_class(self) -> str:
        return self._remake(class_named(self._chance.choice((OURS, OTHERS))))

    def _drop_class(self) -> str:
        return self._drop(Key("GatewayClass", "", self._chance.choice((OURS, OTHERS))))

    def _put_parameters(self) -> str:
        vcl, size = self._chance.choice((*MAPS, None)), self._chance.choice(SIZES)
        return f"{self._put(class_parameters(vcl, **size))} with {vcl} and {size}"

    def _drop_parameters(self) -> str:
        return self._drop(Key("GatewayClassParameters", "", OURS))

    def _put_vcl(self) -> str:
        made = user_vcl(HOME, f"# edition {self._chance.randint(1, 2)}")
        made["metadata"]["name"] = self._chance.choice(MAPS)
        return self._put(made)

    def _drop_vcl(self) -> str:
        return self._drop(Key("ConfigMap", HOME, self._chance.choice(MAPS)))

    # -- what listeners and routes name, and who serves them ----------------------------------

    def _put_certificate(self) -> str:
        host = self._chance.choice(("a.example.com", "b.example.com"))
        return f"{self._put(certificate(host))} for {host}"

    def _drop_certificate(self) -> str:
        return self._drop(Key("Secret", HOME, CERTIFICATE))

    def _put_service(self) -> str:
        return self._put(service(self._chance.choice((HOME, AWAY)), BACKEND))

    def _drop_service(self) -> str:
        return self._drop(Key("Service", self._chance.choice((HOME, AWAY)), BACKEND))

    def _toggle_grant(self) -> str:
        return self._toggle(reference_grant(AWAY, HOME))

    def _toggle_policy(self) -> str:
        return self._toggle(backend_tls_policy(self._chance.choice((HOME, AWAY)), BACKEND))

    def _toggle_cache_policy(self) -> str:
        targets = [*(("Gateway", name) for name in GATEWAYS), *(("HTTPRoute", name) for name in ROUTES[:3])]
        return self._toggle(cache_policy(HOME, *self._chance.choice(targets)))

    def _toggle_invalidation(self) -> str:
        """Toggle one that may be for a Gateway that never exists, or expire at once."""
        name, ttl = self._chance.choice(INVALIDATIONS), self._chance.choice(("0s", "1h", "1h"))
        ref = {"name": self._chance.choice((*GATEWAYS, "never"))}
        return self._toggle(invalidation(HOME, name, gatewayRef=ref, everything=True, ttl=ttl))

    def _toggle_pod(self) -> str:
        gateway_name, class_name = self._chance.choice(GATEWAYS), self._chance.choice((OURS, OTHERS))
        habit = self._chance.choice((SILENT, FAILING, OLD, "telling", "telling"))
        return self._toggle(pod(f"{gateway_name}-{class_name}-{habit}", gateway_name, class_name))

    # -- what others do to what is generated ----------------------------------------------------

    def _drop_generated(self) -> str:
        key = self._some_generated()
        return self._drop(key) if key else "there is none"

    def _unlabel_generated(self) -> str:
        """Remove the marks of ownership from an object of ours."""
        key = self._some_generated()
        if key:
            self._store.patch(key, {"metadata": {"labels": None}}, EDITOR)
        return str(key)

    def _scale(self) -> str:
        """Set the replicas as another manager: the field is theirs from then on."""
        key = Key("Deployment", HOME, names.workload(self._chance.choice(GATEWAYS)))
        if key in self._store.documents:
            self._store.patch(key, {"spec": {"replicas": self._chance.randint(1, 5)}}, EDITOR)
        return str(key)

    def _some_generated(self) -> Key | None:
        generated = [
            key
            for key, document in self._store.documents.items()
            if names.MANAGED_BY_LABEL in document["metadata"].get("labels", {}) and key.kind != "Pod"
        ]
        return self._chance.choice(generated) if generated else None

    # -- what happens to an API server --------------------------------------------------------

    def _hand_over(self) -> str:
        chosen = self._chance.randrange(len(self._turns))
        for number, turn in enumerate(self._turns):
            turn.give(leads=number == chosen)
        return f"operator {chosen} leads"

    def _toggle_kind(self) -> str:
        kind = self._chance.choice(OPTIONAL)
        if kind in self._store.absent:
            self._store.bring_back(kind)
            return f"{kind} is back"
        self._store.take_away(kind)
        return f"{kind} is gone"

    def _break_watches(self) -> str:
        self._store.break_watches()
        return "all"

    def _compact(self) -> str:
        self._store.compact()
        return f"what was before {self._store.oldest}"

    def _storm(self) -> str:
        """Overload the API server, or relieve it."""
        faults = self._store.faults
        faults.storm = 0.0 if faults.storm else self._chance.choice((0.2, 0.5, 0.95))
        return f"{faults.storm:g} of all requests are refused"

    def _deny(self) -> str:
        """Have admission reject writes of a kind, or accept them again."""
        place = (self._chance.choice(DENIED), self._chance.choice((HOME, HOME, AWAY)))
        if self._store.faults.denied.pop(place, None) is not None:
            return f"{place} is admitted again"
        self._store.faults.denied[place] = self._chance.choice((403, 422))
        return f"{place} is rejected with {self._store.faults.denied[place]}"

    def _lose_node(self) -> str:
        """Let a node vanish: its pods stop to answer, and after a while they count as not ready. Or have it back."""
        pods = [key for key in self._store.documents if key.kind == "Pod"]
        if not pods:
            return "there is none"
        key = self._chance.choice(pods)
        self._store.faults.lost ^= {key.name}
        return f"{key} {'is lost' if key.name in self._store.faults.lost else 'is back'}"

    def _toggle_many_pods(self) -> str:
        gateway_name, class_name = self._chance.choice(GATEWAYS), self._chance.choice((OURS, OTHERS))
        made = [pod(f"{gateway_name}-{class_name}-many-{number}", gateway_name, class_name) for number in range(12)]
        return [self._toggle(one) for one in made][-1]

    # -- to one object ------------------------------------------------------------------------

    def _put(self, document: Document) -> str:
        self._store.put(document)
        return _told(document)

    def _remake(self, document: Document) -> str:
        """Delete it, if it is there, and have the next one at once."""
        self._store.delete(key_of(document))
        return self._put(document)

    def _drop(self, key: Key) -> str:
        return str(key) if self._store.delete(key) else f"{key}, which is not there"

    def _toggle(self, document: Document) -> str:
        return f"{key_of(document)} goes" if self._store.delete(key_of(document)) else f"{self._put(document)} comes"


def _told(document: Document) -> str:
    """Return which object it is, with what decides about it."""
    spec = document.get("spec", {})
    parents = [ref["name"] for ref in (*spec.get("parentRefs", ()), spec.get("parentRef")) if ref]
    ports = [listener["port"] for listener in spec.get("listeners", ())]
    about = [spec.get("gatewayClassName"), parents, ports]
    return " ".join([str(key_of(document)), *(str(one) for one in about if one)])
