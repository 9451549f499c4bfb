"""Which ConfigMaps are watched, as long as somebody names them."""

import asyncio
import contextlib

import msgspec

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.operator.observe.config_maps import NOTHING, NamedMaps, maps_named_by

CA, OTHER, VCL = (Key("ConfigMap", "shop", name) for name in ("ca", "other", "vcl"))


def gateway(class_name: str = "varnish", **frontend: object) -> api.Gateway:
    spec = {"gatewayClassName": class_name, "tls": {"frontend": frontend}}
    return msgspec.convert({"metadata": {"name": "gw", "namespace": "shop"}, "spec": spec}, api.Gateway)


def validated(*names: str, **more: str) -> dict:
    return {"validation": {"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": n, **more} for n in names]}}


def test_gateways_of_the_class_name_authorities():
    per_port = [{"port": 8443, "tls": validated("other")}, {"port": 9443, "tls": {}}]
    assert maps_named_by(gateway(default=validated("ca"), perPort=per_port), "varnish") == {CA, OTHER}
    assert maps_named_by(gateway("another", default=validated("ca")), "varnish") == NOTHING
    assert maps_named_by(gateway(default=validated("ca", namespace="team")), "varnish") == {
        CA._replace(namespace="team")
    }
    assert maps_named_by(gateway(default=validated("ca", kind="Secret")), "varnish") == NOTHING
    assert maps_named_by(gateway(), "varnish") == NOTHING
    assert maps_named_by(None, "varnish") == NOTHING


def test_parameters_name_user_vcl():
    spec = {"userVCLConfigMapRef": {"name": "vcl", "namespace": "shop"}}
    parameters = msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, api.GatewayClassParameters)
    assert maps_named_by(parameters, "varnish") == {VCL}


def test_what_several_name_is_wanted_until_the_last_is_gone():
    maps = NamedMaps(None, None)
    one, two = Key("Gateway", "shop", "one"), Key("Gateway", "shop", "two")
    maps.name(one, frozenset({CA}))
    assert maps.is_behind
    maps.name(two, frozenset({CA, OTHER}))
    maps.name(one, NOTHING)
    assert set(maps._counts) == {CA, OTHER}
    maps.name(two, frozenset({OTHER}))
    assert set(maps._counts) == {OTHER}
    maps.is_behind = False
    maps.name(two, frozenset({OTHER}))
    assert not maps.is_behind, "nothing is new"
    maps.name(two, NOTHING)
    assert not maps._counts
    assert not maps._named


async def test_a_stop_is_not_swallowed_by_a_watch_that_ends():
    maps = NamedMaps(None, lambda _: None)
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def watch() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            has_begun.set()
            await may_end.wait()

    maps._watches[CA] = asyncio.create_task(watch())
    await asyncio.sleep(0)
    following = asyncio.create_task(maps.follow(None))
    await has_begun.wait()
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await following
    assert following.cancelled()
    may_end.set()
