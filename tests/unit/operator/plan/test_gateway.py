"""What a Gateway needs, and that a change redoes no more than it touches."""

from base64 import b64decode

import msgspec

from support.builders.plans import LISTENERS, gateway, plan
from varnish_gateway.api import Key
from varnish_gateway.emit import manifests
from varnish_gateway.emit.manifests import Installation
from varnish_gateway.emit.routing import PER_SHARD, content_hash
from varnish_gateway.emit.tls import tls_hash
from varnish_gateway.ir import GatewayDelta, Parameters, Tls, UserVcl, UserVclUnavailable, wire
from varnish_gateway.operator.observe.owned import decode_map, decode_shard
from varnish_gateway.operator.plan.gateway import Plan

SECRET = Key("Secret", "shop", "gw-tls")


def bound(of: Plan) -> set[str]:
    """Return the namespaces whose EndpointSlices may be read."""
    return {key.namespace for key in of.objects if key.name.startswith("gw-endpoints-")}


def routes(*names: str, namespace: str = "shop") -> dict[Key, wire.Route | None]:
    return {
        Key("HTTPRoute", "shop", name): wire.Route(
            namespace="shop",
            name=name,
            attachments=(wire.Attachment(listener="http"),),
            rules=(wire.Rule(backends=(wire.Backend(service=f"{namespace}/{name}", port=80),)),),
        )
        for name in names
    }


def test_objects_are_made_once_and_again_only_for_another_shape():
    made = plan()
    assert made.settle()
    before = made.objects
    assert not made.settle()
    made.take(GatewayDelta(routes=routes("tea", namespace="stock")))
    assert [(key.kind, key.namespace) for key in made.settle()] == [("RoleBinding", "stock")], "and nothing else"
    made.take(GatewayDelta(routes=routes("coffee", namespace="stock")))
    assert not made.settle()
    assert made.objects is before
    made.gateway = gateway(addresses=[{"value": "192.0.2.1"}])
    assert [key.kind for key in made.settle()] == ["Service"]


def secured(text: bytes) -> Tls:
    port = wire.TlsPort(443, (wire.Certificate("1f2e.pem", ("*",)),))
    return Tls((port,), {"1f2e.pem": text})


def data(manifest: dict) -> dict[str, bytes]:
    return {name: b64decode(text) for name, text in manifest.get("data", {}).items()}


def test_a_rotated_certificate_is_another_secret_and_nothing_else():
    made = plan()
    assert data(made.settle()[SECRET]) == {}
    made.take(GatewayDelta(tls=secured(b"one")))
    changed = made.settle()
    assert changed.keys() == {SECRET}
    tls_json = data(changed[SECRET]).pop("tls.json")
    assert data(changed[SECRET]) == {"tls.json": tls_json, "1f2e.pem": b"one"}
    assert tls_hash(made.tls) == content_hash(tls_json)
    assert not made.settle()
    before = made.shape
    made.take(GatewayDelta(tls=secured(b"two")))
    assert made.settle().keys() == {SECRET}
    assert made.shape is before
    made.take(GatewayDelta(tls=Tls()))
    assert data(made.settle()[SECRET]) == {}


def test_certificates_flow_while_a_class_is_at_fault():
    made = Plan(gateway(), Installation(image="i"), 1)
    made.take(GatewayDelta(listeners=LISTENERS, placed=LISTENERS, tls=secured(b"one")))
    assert made.settle().keys() == {SECRET}
    made.take(GatewayDelta(tls=secured(b"two")))
    assert made.settle().keys() == {SECRET}
    made.take(GatewayDelta(tls=Tls()))
    assert made.settle().keys() == {SECRET}
    made.take(GatewayDelta(parameters=Parameters()))
    assert SECRET in made.settle(), "it may not have been made before"


def test_without_parameters_there_is_nothing_to_be_made_and_nothing_to_be_removed():
    made = Plan(gateway(), Installation(image="i"), 1)
    made.take(GatewayDelta(listeners=LISTENERS, placed=LISTENERS, user_vcl=UserVclUnavailable("parametersRef", "gone")))
    assert not made.settle()
    assert made.shape is not None, "routing flows all the same"
    assert made.objects is None
    assert made.vcl is None


def test_user_vcl_that_is_gone_leaves_the_last_good_one():
    made = plan()
    made.take(GatewayDelta(user_vcl=UserVcl("ConfigMap shop/vcl", "sub vcl_deliver {}")))
    good = made.vcl
    made.take(GatewayDelta(user_vcl=UserVclUnavailable("ConfigMap shop/vcl", "gone")))
    assert made.vcl == good
    made.take(GatewayDelta(user_vcl=None))
    assert "sub vcl_deliver {}" not in made.vcl


def test_namespaces_are_counted_by_the_routes_that_reach_them():
    made = plan()
    made.take(GatewayDelta(routes={**routes("a", "b", namespace="one"), **routes("c", namespace="two")}))
    made.settle()
    assert bound(made) == {"one", "two"}
    made.take(GatewayDelta(routes={Key("HTTPRoute", "shop", "a"): None, **routes("c", namespace="one")}))
    made.settle()
    assert bound(made) == {"one"}
    made.take(GatewayDelta(routes=dict.fromkeys(routes("b", "c"))))
    made.settle()
    assert bound(made) == set()


def test_the_index_names_every_shard_by_its_text():
    made = plan()
    assert made.index() is None
    made.take(GatewayDelta(routes=routes(*(f"r{number}" for number in range(PER_SHARD + 1)))))
    index = msgspec.json.decode(made.index(), type=wire.Index)
    assert len(index.shards) == 2
    assert index.shards == ("", content_hash(made.shards[1].text))
    assert {key.name for key in made.maps} == {"gw-vcl", "gw-vcl-1"}


def test_a_restart_keeps_the_number_of_shards():
    few = routes(*(f"r{number}" for number in range(PER_SHARD // 2 + 1)))
    assert len(plan(with_routes=few).shards) == 1
    assert len(plan(with_routes=few, shards=2).shards) == 2


def test_the_number_of_shards_in_use_is_kept_where_it_fits():
    many = routes(*(f"r{number}" for number in range(PER_SHARD)))
    made, led = plan(with_routes=many), plan(shards=2, with_routes=many)
    assert made.keep_to(2)
    assert made.shards == led.shards
    assert made.index() == led.index()
    assert made.doubted == {0, 1}
    assert not made.keep_to(2)
    made.keep_to(64)
    assert len(made.shards) < 64
    made.keep_to(1)
    assert set(made.maps.values()) == {0}


def test_what_is_stored_as_it_is_wanted_needs_no_look():
    made = plan(with_routes=routes(*(f"r{number}" for number in range(PER_SHARD + 1))))
    made.settle()
    main, further = (Key("ConfigMap", "shop", name) for name in ("gw-vcl", "gw-vcl-1"))
    stored = {
        main: decode_map(_stored(manifests.routing_map(made.shape, made.shards[0].text, made.index()), made)),
        further: decode_map(msgspec.json.encode(manifests.shard_map(made.shape, 1, made.shards[1].text))),
    }
    assert all(made.holds(key, live) for key, live in stored.items())
    made.take(GatewayDelta(routes=routes("another")))
    assert [key.name for key, live in stored.items() if not made.holds(key, live)]
    made.gateway = gateway(generation=2)
    assert not made.holds(main, stored[main])


def test_the_answer_of_a_shard_without_its_text_says_the_same_as_with_it():
    made = plan(with_routes=routes(*(f"r{number}" for number in range(PER_SHARD + 1))))
    made.settle()
    whole = manifests.shard_map(made.shape, 1, made.shards[1].text)
    bare = {name: value for name, value in whole.items() if name != "data"}
    assert decode_shard(msgspec.json.encode(bare), made.shards[1].hash) == decode_map(msgspec.json.encode(whole))


def _stored(routing: dict, made: Plan) -> bytes:
    """Return the main ConfigMap as both controllers together make it."""
    vcl = manifests.config_map(made.shape, made.vcl, 1)
    return msgspec.json.encode({**vcl, "data": {**vcl["data"], **routing["data"]}})
