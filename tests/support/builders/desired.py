"""Desired state of a Gateway."""

import msgspec

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.emit.manifests import Installation
from varnish_gateway.ir import GatewayDelta, Parameters, wire
from varnish_gateway.operator.plan.gateway import DesiredGateway

LISTENERS = (wire.Listener(name="http", socket="http-80", port=80),)


def gateway(generation: int = 1, **spec: object) -> api.Gateway:
    document = {
        "metadata": {"name": "gw", "namespace": "shop", "uid": "u", "generation": generation},
        "spec": {"gatewayClassName": "varnish", "listeners": [], **spec},
    }
    return msgspec.convert(document, api.Gateway)


def route(name: str, created: int = 0) -> wire.Route:
    attachment = wire.Attachment(listener="http")
    return wire.Route(namespace="shop", name=name, attachments=(attachment,), rules=(wire.Rule(),), created=created)


def routes(created: int, *names: str) -> dict[Key, wire.Route | None]:
    return {Key("HTTPRoute", "shop", name): route(name, created) for name in names}


def desired_gateway(*, shards: int = 1, with_routes: dict[Key, wire.Route | None] | None = None) -> DesiredGateway:
    desired = DesiredGateway(gateway(), Installation(image="i"), shards)
    desired.update(
        GatewayDelta(
            listeners=LISTENERS, placed=LISTENERS, user_vcl=None, parameters=Parameters(), routes=with_routes or {}
        )
    )
    return desired
