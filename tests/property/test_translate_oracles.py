"""Attachment and grants against naive readings of the specification."""

from collections import Counter
from collections.abc import Iterable

from hypothesis import given

from property.translate_worlds import CONCRETE, Changes, options, worlds
from varnish_gateway import api, ir
from varnish_gateway.api.gateway_networking import ObjectReference
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
        rule.timeouts is None and all(match.path.type != "RegularExpression" for match in rule.matches)
        for rule in route.spec.rules
    )
    return (
        named
        and servable
        and listener.protocol in ("HTTP", "HTTPS")
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
                    namespace, name = backend.service.split("/")
                    target = api.Key("Service", namespace, name)
                    assert reachable(world, "HTTPRoute", route.namespace, target)


@given(worlds, options)
def test_every_tls_listener_has_a_certificate_that_it_may_use(world: Changes, given_options: dict) -> None:
    delta = Translator(**given_options).update(world)
    for key, gateway in delta.gateways.items():
        ports = {port.port: port for port in gateway.tls.ports} if gateway.tls else {}
        served = {listener.name: listener for listener in gateway.listeners if listener.scheme == "https"}
        assert ports.keys() == {listener.port for listener in served.values()}
        for spec in world[key].spec.listeners:
            if spec.name in served:
                found = files_of(world, spec.tls.certificate_refs, "default")
                hostname = served[spec.name].hostname
                shown = {one.file for one in ports[spec.port].certificates if hostname in one.names}
                assert shown, "it has one"
                assert {gateway.tls.files[name] for name in shown} <= found


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


def files_of(world: Changes, refs: Iterable[ObjectReference], namespace: str) -> set[bytes]:
    """Return the files of the certificates that may be used."""
    targets = [api.Key("Secret", ref.namespace or namespace, ref.name) for ref in refs]
    found = [world[key] for key in targets if key in world and reachable(world, "Gateway", namespace, key)]
    return {one.value("tls.crt") + one.value("tls.key") for one in found if len(one.data) == 2}


@given(worlds, options)
def test_no_route_is_served_where_it_is_not_allowed(world: Changes, given_options: dict) -> None:
    delta = Translator(**given_options).update(world)
    for key, gateway in delta.gateways.items():
        specs = {listener.name: listener for listener in world[key].spec.listeners}
        for route_key, route in gateway.routes.items():
            for attachment in route.attachments:
                assert allowed(world, specs[attachment.listener], world[route_key])
                assert attachment.listener in {listener.name for listener in gateway.listeners}


def reachable(world: Changes, kind: str, namespace: str, wanted: api.Key) -> bool:
    return namespace == wanted.namespace or any(
        obj.metadata.namespace == wanted.namespace
        and any((source.kind, source.namespace) == (kind, namespace) for source in obj.spec.from_)
        and any(target.kind == wanted.kind and target.name in (None, wanted.name) for target in obj.spec.to)
        for obj in world.values()
        if isinstance(obj, api.ReferenceGrant)
    )
