"""Attachment and grants against naive readings of the specification."""

from collections import Counter
from collections.abc import Iterable

from hypothesis import given

from support.builders.worlds import CONCRETE, INVALID_REGEX, Changes, options, worlds
from varnish_gateway import api, ir
from varnish_gateway.api.gateway_networking import ListenerSpec, ObjectReference, RouteNamespaces
from varnish_gateway.translate import Translator
from varnish_gateway.translate.gateway.listeners import validate
from varnish_gateway.translate.options import RESERVED_PORTS

Owner = api.Gateway | api.ListenerSet


def takes(pattern: str | None, host: str) -> bool:
    if pattern is None:
        return True
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def meet(listener: str | None, route: tuple[str, ...]) -> bool:
    return any(takes(listener, host) and any(takes(own, host) for own in route or (None,)) for host in CONCRETE)


def allowed(world: Changes, choice: RouteNamespaces, owner: Owner, route: api.Object) -> bool:
    namespace = world.get(api.Key("Namespace", "", route.metadata.namespace))
    return {
        "All": True,
        "Same": route.metadata.namespace == owner.metadata.namespace,
        "Selector": namespace is not None and namespace.metadata.labels.get("tier") == "web",
        "None": False,
    }[choice.from_]


def attaches(world: Changes, owner: Owner, listener, route: api.HTTPRoute) -> bool:
    named = any(
        (ref.kind, ref.namespace, ref.name) == (owner.kind, owner.metadata.namespace, owner.metadata.name)
        and ref.section_name in (None, listener.name)
        and ref.port in (None, listener.port)
        for ref in route.spec.parent_refs
    )
    servable = any(
        rule.session_persistence is None and all(match.path.value != INVALID_REGEX for match in rule.matches)
        for rule in route.spec.rules
    )
    return (
        named
        and servable
        and listener.protocol in ("HTTP", "HTTPS")
        and allowed(world, listener.allowed_routes.namespaces, owner, route)
        and meet(listener.hostname, route.spec.hostnames)
    )


@given(worlds, options)
def test_attached_routes_are_those_that_attach(world: Changes, given_options: dict) -> None:
    # Which routes a budget of regular expressions leaves out has tests of its own.
    delta = Translator(**{**given_options, "namespace_regexes": 16 << 20}).update(world)
    routes = [obj for obj in world.values() if isinstance(obj, api.HTTPRoute)]
    for key, status in delta.statuses.items():
        if not isinstance(status, ir.GatewayStatus | ir.ListenerSetStatus):
            continue
        owner = world[key]
        want = Counter(
            listener.name
            for listener in owner.spec.listeners
            for route in routes
            if attaches(world, owner, listener, route)
        )
        counts = {listener.name: listener.attached_routes for listener in status.listeners}
        if counts or is_attached(world, owner):
            assert counts == {listener.name: want[listener.name] for listener in owner.spec.listeners}


def is_attached(world: Changes, owner: Owner) -> bool:
    """Whether the listeners of a ListenerSet are of its Gateway; those of a Gateway always are."""
    if isinstance(owner, api.Gateway):
        return True
    gateway = world.get(owner.gateway)
    return gateway is not None and allowed(world, gateway.spec.allowed_listeners.namespaces, gateway, owner)


def family(protocol: str) -> str:
    return {"HTTP": "cleartext", "HTTPS": "TLS"}.get(protocol, protocol)


def conflicts(world: Changes, gateway: api.Gateway) -> dict[tuple[api.Key, str], bool]:
    """Merge listeners in the order of precedence; return which of the ListenerSets' conflict with earlier ones."""
    sets = [
        each
        for each in world.values()
        if isinstance(each, api.ListenerSet) and each.gateway == api.key_of(gateway) and is_attached(world, each)
    ]
    ordered = sorted(sets, key=lambda each: (each.created, f"{each.metadata.namespace}/{each.metadata.name}"))
    taken: list[tuple[int, str, str]] = []
    found: dict[tuple[api.Key, str], bool] = {}
    for owner in (gateway, *ordered):
        new = []
        for listener in validate(owner.spec.listeners, reserved_ports=RESERVED_PORTS):
            place = (listener.port, listener.protocol, listener.hostname)
            conflict = listener.conflict is not None or any(
                place == other or (place[0] == other[0] and family(place[1]) != family(other[1])) for other in taken
            )
            if listener.rejected is None and not conflict:
                new.append(place)
            if owner is not gateway:
                found[api.key_of(owner), listener.name] = conflict
        taken += new
    return found


@given(worlds, options)
def test_conflicts_are_decided_in_the_order_of_precedence(world: Changes, given_options: dict) -> None:
    delta = Translator(**given_options).update(world)
    for key, changes in delta.gateways.items():
        for (owner, name), conflict in conflicts(world, world[key]).items():
            status = next(each for each in delta.statuses[owner].listeners if each.name == name)
            counts = next(each for each in status.conditions if each.type == "Conflicted")
            assert (counts.status == "True") is conflict
        assert len({(each.socket, each.hostname) for each in changes.listeners}) == len(changes.listeners)
        assert len({each.port for each in changes.listeners}) == len({each.socket for each in changes.listeners})


@given(worlds, options)
def test_no_traffic_crosses_a_namespace_without_a_grant(world: Changes, given_options: dict) -> None:
    delta = Translator(**given_options).update(world)
    for gateway in delta.gateways.values():
        for route in gateway.routes.values():
            for backend in (backend for rule in route.rules for backend in rule.backends):
                if backend.service is not None:
                    namespace, name = backend.service.split("/")
                    target = api.Key("Service", namespace, name)
                    assert reachable(world, "HTTPRoute", route.namespace, target)


@given(worlds, options)
def test_no_plain_request_reaches_a_backend_that_requires_tls(world: Changes, given_options: dict) -> None:
    targets = {
        (policy.metadata.namespace, ref.name, ref.section_name)
        for policy in world.values()
        if isinstance(policy, api.BackendTLSPolicy)
        for ref in policy.spec.target_refs
    }
    for gateway in Translator(**given_options).update(world).gateways.values():
        for route in gateway.routes.values():
            for backend in (backend for rule in route.rules for backend in rule.backends):
                if backend.service is not None:
                    service = backend.service.split("/")
                    assert not {(*service, ""), (*service, backend.port_name)} & targets


@given(worlds, options)
def test_every_tls_listener_has_a_certificate_that_it_may_use(world: Changes, given_options: dict) -> None:
    delta = Translator(**given_options).update(world)
    for key, gateway in delta.gateways.items():
        ports = {port.port: port for port in gateway.tls.ports} if gateway.tls else {}
        served = {listener.name: listener for listener in gateway.listeners if listener.scheme == "https"}
        assert ports.keys() == {listener.port for listener in served.values()}
        for name, listener in served.items():
            owner, spec = owner_of(world, key, name)
            found = files_of(world, spec.tls.certificate_refs, owner)
            shown = {one.file for one in ports[spec.port].certificates if listener.hostname in one.names}
            assert shown, "it has one"
            assert {gateway.tls.files[file] for file in shown} <= found


@given(worlds, options)
def test_clients_are_validated_wherever_that_is_asked_for(world: Changes, given_options: dict) -> None:
    delta = Translator(**given_options).update(world)
    for key, gateway in delta.gateways.items():
        for port in gateway.tls.ports if gateway.tls else ():
            asked = world[key].spec.tls.frontend.validation(port.port)
            assert (port.clients is None) == (asked is None)
            if asked is not None:
                assert port.clients.insecure == (asked.mode == "AllowInsecureFallback")
                (ref,) = asked.ca_certificate_refs
                target = api.Key("ConfigMap", ref.namespace or "default", ref.name)
                assert reachable(world, "Gateway", "default", target)
                assert gateway.tls.files[port.clients.file].decode() == world[target].data["ca.crt"]


def files_of(world: Changes, refs: Iterable[ObjectReference], owner: Owner) -> set[bytes]:
    """Return the files of the certificates that may be used."""
    namespace = owner.metadata.namespace
    targets = [api.Key("Secret", ref.namespace or namespace, ref.name) for ref in refs]
    found = [world[key] for key in targets if key in world and reachable(world, owner.kind, namespace, key)]
    return {one.value("tls.crt") + one.value("tls.key") for one in found if len(one.data) == 2}


@given(worlds, options)
def test_no_route_is_served_where_it_is_not_allowed(world: Changes, given_options: dict) -> None:
    delta = Translator(**given_options).update(world)
    for key, gateway in delta.gateways.items():
        for route_key, route in gateway.routes.items():
            for attachment in route.attachments:
                owner, listener = owner_of(world, key, attachment.listener)
                assert allowed(world, listener.allowed_routes.namespaces, owner, world[route_key])
                assert is_attached(world, owner)
                assert attachment.listener in {listener.name for listener in gateway.listeners}


def owner_of(world: Changes, gateway: api.Key, listener: str) -> tuple[Owner, ListenerSpec]:
    *of_set, name = listener.split("/")
    owner = world[api.Key("ListenerSet", *of_set)] if of_set else world[gateway]
    return owner, next(each for each in owner.spec.listeners if each.name == name)


def reachable(world: Changes, kind: str, namespace: str, target: api.Key) -> bool:
    return namespace == target.namespace or any(
        obj.metadata.namespace == target.namespace
        and any((source.kind, source.namespace) == (kind, namespace) for source in obj.spec.from_)
        and any(target.kind == target.kind and target.name in (None, target.name) for target in obj.spec.to)
        for obj in world.values()
        if isinstance(obj, api.ReferenceGrant)
    )
