"""Attachment and grants against naive readings of the specification."""

from collections import Counter

from hypothesis import given

from property.translate_worlds import CONCRETE, Changes, options, worlds
from varnish_gateway import api, ir
from varnish_gateway.translate import Translator


def takes(pattern: str | None, host: str) -> bool:
    if pattern is None:
        return True
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def meet(listener: str | None, route: tuple[str, ...]) -> bool:
    return any(takes(listener, host) and any(takes(own, host) for own in route or (None,)) for host in CONCRETE)


def allowed(world: Changes, listener, route: api.HTTPRoute) -> bool:
    namespace = world.get(api.Key("Namespace", "", route.metadata.namespace))
    return {
        "All": True,
        "Same": route.metadata.namespace == "default",
        "Selector": namespace is not None and namespace.metadata.labels.get("tier") == "web",
    }[listener.allowed_routes.namespaces.from_]


def attaches(world: Changes, gateway: api.Gateway, listener, route: api.HTTPRoute) -> bool:
    named = any(
        ref.name == gateway.metadata.name
        and ref.section_name in (None, listener.name)
        and ref.port in (None, listener.port)
        for ref in route.spec.parent_refs
    )
    servable = any(
        rule.session_persistence is None and all(match.path.type != "RegularExpression" for match in rule.matches)
        for rule in route.spec.rules
    )
    return (
        named
        and servable
        and listener.protocol == "HTTP"
        and allowed(world, listener, route)
        and meet(listener.hostname, route.spec.hostnames)
    )


@given(worlds, options)
def test_attached_routes_are_those_that_attach(world: Changes, given_options: dict) -> None:
    delta = Translator(**given_options).update(world)
    routes = [obj for obj in world.values() if isinstance(obj, api.HTTPRoute)]
    for key, status in delta.statuses.items():
        if not isinstance(status, ir.GatewayStatus):
            continue
        gateway = world[key]
        want = Counter(
            listener.name
            for listener in gateway.spec.listeners
            for route in routes
            if attaches(world, gateway, listener, route)
        )
        assert {listener.name: listener.attached_routes for listener in status.listeners} == {
            listener.name: want[listener.name] for listener in gateway.spec.listeners
        }


@given(worlds, options)
def test_no_traffic_crosses_a_namespace_without_a_grant(world: Changes, given_options: dict) -> None:
    delta = Translator(**given_options).update(world)
    for gateway in delta.gateways.values():
        for route in gateway.routes.values():
            for backend in (backend for rule in route.rules for backend in rule.backends):
                if backend.service is not None:
                    assert reachable(world, route.namespace, *backend.service.split("/"))


@given(worlds, options)
def test_no_route_is_served_where_it_is_not_allowed(world: Changes, given_options: dict) -> None:
    delta = Translator(**given_options).update(world)
    for key, gateway in delta.gateways.items():
        specs = {listener.name: listener for listener in world[key].spec.listeners}
        for route_key, route in gateway.routes.items():
            for attachment in route.attachments:
                assert allowed(world, specs[attachment.listener], world[route_key])
                assert attachment.listener in {listener.name for listener in gateway.listeners}


def reachable(world: Changes, route_namespace: str, namespace: str, service: str) -> bool:
    return namespace == route_namespace or any(
        obj.metadata.namespace == namespace
        and any(source.namespace == route_namespace for source in obj.spec.from_)
        and any(target.name in (None, service) for target in obj.spec.to)
        for obj in world.values()
        if isinstance(obj, api.ReferenceGrant)
    )
