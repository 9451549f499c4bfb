"""Desired state of a Gateway; a change rebuilds no more than it touches."""

from base64 import b64decode

import msgspec

from support.builders.desired import LISTENERS, desired_gateway, gateway
from varnish_gateway.api import Key
from varnish_gateway.emit import manifests, names
from varnish_gateway.emit.manifests import Installation
from varnish_gateway.emit.routing import PER_SHARD, content_hash
from varnish_gateway.emit.tls import tls_hash
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import GatewayDelta, Parameters, Tls, UserVcl, UserVclUnavailable, wire
from varnish_gateway.ir.capabilities import ALL, NONE
from varnish_gateway.operator.observe.owned import decode_config_map, decode_shard
from varnish_gateway.operator.plan.gateway import DesiredGateway

SECRET = Key("Secret", "shop", "gw-vgw-tls")


def readable_namespaces(desired: DesiredGateway) -> set[str]:
    """Return the namespaces whose EndpointSlices the pods may read."""
    return {key.namespace for key in desired.objects if key.name.startswith("gw-endpoints-")}


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


def test_objects_are_rebuilt_only_when_their_inputs_change():
    desired = desired_gateway()
    assert desired.rebuild()
    before = desired.objects
    assert not desired.rebuild()
    desired.update(GatewayDelta(routes=routes("tea", namespace="stock")))
    assert [(key.kind, key.namespace) for key in desired.rebuild()] == [("RoleBinding", "stock")], "and nothing else"
    desired.update(GatewayDelta(routes=routes("coffee", namespace="stock")))
    assert not desired.rebuild()
    assert desired.objects is before
    desired.gateway = gateway(addresses=[{"value": "192.0.2.1"}])
    assert [key.kind for key in desired.rebuild()] == ["Service"]


def secured(text: bytes) -> Tls:
    port = wire.TlsPort(443, (wire.Certificate("1f2e.pem", ("*",)),))
    return Tls((port,), {"1f2e.pem": text})


def data(manifest: dict) -> dict[str, bytes]:
    return {name: b64decode(text) for name, text in manifest.get("data", {}).items()}


def test_rotated_certificate_changes_only_the_secret():
    desired = desired_gateway()
    assert data(desired.rebuild()[SECRET]) == {}
    desired.update(GatewayDelta(tls=secured(b"one")))
    changed = desired.rebuild()
    assert changed.keys() == {SECRET}
    tls_json = data(changed[SECRET]).pop("tls.json")
    assert data(changed[SECRET]) == {"tls.json": tls_json, "sources.json": b"{}", "1f2e.pem": b"one"}
    assert tls_hash(desired.state.tls) == content_hash(tls_json)
    assert not desired.rebuild()
    before = desired.shape
    desired.update(GatewayDelta(tls=secured(b"two")))
    assert desired.rebuild().keys() == {SECRET}
    assert desired.shape is before
    desired.update(GatewayDelta(tls=Tls()))
    assert data(desired.rebuild()[SECRET]) == {}


def test_certificates_are_updated_while_the_class_is_invalid():
    desired = DesiredGateway(gateway(), Installation(image="i"), 1)
    desired.update(GatewayDelta(listeners=LISTENERS, placed=LISTENERS, tls=secured(b"one")))
    assert desired.rebuild().keys() == {SECRET}
    desired.update(GatewayDelta(tls=secured(b"two")))
    assert desired.rebuild().keys() == {SECRET}
    desired.update(GatewayDelta(tls=Tls()))
    assert desired.rebuild().keys() == {SECRET}
    desired.update(GatewayDelta(parameters=Parameters()))
    assert SECRET in desired.rebuild(), "it may not have been applied before"


def test_gateway_without_valid_parameters_builds_and_removes_no_objects():
    desired = DesiredGateway(gateway(), Installation(image="i"), 1)
    desired.update(
        GatewayDelta(listeners=LISTENERS, placed=LISTENERS, user_vcl=UserVclUnavailable("parametersRef", "gone"))
    )
    assert not desired.rebuild()
    assert desired.shape is not None, "routing is written all the same"
    assert desired.objects is None
    assert desired.vcl is None


def test_frame_of_main_vcl_calls_only_what_all_pods_have():
    desired = desired_gateway()
    user = UserVcl("ConfigMap shop/vcl", "sub vcl_deliver {}")
    desired.update(GatewayDelta(user_vcl=user))
    assert desired.vcl == main_vcl(user, caching=True)
    assert desired.express(NONE)
    assert desired.vcl == main_vcl(user, caching=False)
    desired.update(GatewayDelta(user_vcl=None))
    assert desired.vcl == main_vcl(caching=False)
    assert desired.express(ALL)
    assert desired.vcl == main_vcl(caching=True)
    assert desired.routing.drain_dirty() == {0}, "its ConfigMap is written again"


def test_capabilities_are_heard_before_user_vcl_is_available():
    desired = DesiredGateway(gateway(), Installation(image="i"), 1)
    assert desired.express(NONE)
    assert desired.vcl is None
    desired.update(GatewayDelta(user_vcl=None))
    assert desired.vcl == main_vcl(caching=False)


def test_unavailable_user_vcl_keeps_the_last_available_one():
    desired = desired_gateway()
    desired.update(GatewayDelta(user_vcl=UserVcl("ConfigMap shop/vcl", "sub vcl_deliver {}")))
    good = desired.vcl
    desired.update(GatewayDelta(user_vcl=UserVclUnavailable("ConfigMap shop/vcl", "gone")))
    assert desired.vcl == good
    desired.update(GatewayDelta(user_vcl=None))
    assert "sub vcl_deliver {}" not in desired.vcl


def test_namespace_stays_readable_until_its_last_route_is_deleted():
    desired = desired_gateway()
    desired.update(GatewayDelta(routes={**routes("a", "b", namespace="one"), **routes("c", namespace="two")}))
    desired.rebuild()
    assert readable_namespaces(desired) == {"one", "two"}
    desired.update(GatewayDelta(routes={Key("HTTPRoute", "shop", "a"): None, **routes("c", namespace="one")}))
    desired.rebuild()
    assert readable_namespaces(desired) == {"one"}
    desired.update(GatewayDelta(routes=dict.fromkeys(routes("b", "c"))))
    desired.rebuild()
    assert readable_namespaces(desired) == set()


def test_index_names_every_shard_by_its_hash():
    desired = desired_gateway()
    assert desired.routing.index is None
    desired.update(GatewayDelta(routes=routes(*(f"r{number}" for number in range(PER_SHARD + 1)))))
    index = msgspec.json.decode(desired.routing.index, type=wire.Index)
    assert len(index.shards) == 2
    assert index.shards == ("", content_hash(desired.routing.shards[1].text))
    assert {key.name for key in desired.routing.config_maps} == {"gw-vcl", "gw-vcl-1"}


def test_restart_keeps_the_number_of_shards():
    few = routes(*(f"r{number}" for number in range(PER_SHARD // 2 + 1)))
    assert len(desired_gateway(with_routes=few).routing.shards) == 1
    assert len(desired_gateway(with_routes=few, shards=2).routing.shards) == 2


def test_resize_uses_the_stored_number_of_shards_if_routes_fit():
    many = routes(*(f"r{number}" for number in range(PER_SHARD)))
    desired, in_use = desired_gateway(with_routes=many), desired_gateway(shards=2, with_routes=many)
    assert desired.routing.resize(2)
    assert desired.routing.shards == in_use.routing.shards
    assert desired.routing.index == in_use.routing.index
    assert desired.routing.dirty == {0, 1}
    assert not desired.routing.resize(2)
    desired.routing.resize(64)
    assert len(desired.routing.shards) < 64
    desired.routing.resize(1)
    assert set(desired.routing.config_maps.values()) == {0}


def test_stored_config_maps_match_until_desired_state_changes():
    desired = desired_gateway(with_routes=routes(*(f"r{number}" for number in range(PER_SHARD + 1))))
    desired.rebuild()
    main, further = (Key("ConfigMap", "shop", name) for name in ("gw-vcl", "gw-vcl-1"))
    routing = desired.routing
    first = manifests.routing_map(desired.shape, routing.shards[0].text, routing.index, understood=ALL)
    stored = {
        main: decode_config_map(_stored(first, desired)),
        further: decode_config_map(
            msgspec.json.encode(manifests.shard_map(desired.shape, 1, desired.routing.shards[1].text))
        ),
    }
    assert all(desired.matches(key, owned) for key, owned in stored.items())
    desired.routing.express(NONE, desired.state)
    assert not desired.matches(main, stored[main])
    desired.routing.express(ALL, desired.state)
    assert desired.matches(main, stored[main])
    desired.update(GatewayDelta(routes=routes("another")))
    assert [key.name for key, owned in stored.items() if not desired.matches(key, owned)]
    desired.gateway = gateway(generation=2)
    assert not desired.matches(main, stored[main])


def test_capabilities_say_nothing_once_an_earlier_operator_has_written_the_vcl():
    desired = desired_gateway()
    desired.rebuild()
    text = _stored(manifests.routing_map(desired.shape, desired.routing.shards[0].text, understood=ALL), desired)
    assert decode_config_map(text).understood == ALL
    of_earlier = msgspec.json.decode(text)
    del of_earlier["metadata"]["annotations"][names.VCL_HASH]
    assert decode_config_map(msgspec.json.encode(of_earlier)).understood == NONE
    del of_earlier["data"][names.MAIN_VCL]
    assert decode_config_map(msgspec.json.encode(of_earlier)).understood == ALL, "there is no main.vcl yet"
    of_other = msgspec.json.decode(text)
    of_other["data"][names.MAIN_VCL] += "# changed"
    assert decode_config_map(msgspec.json.encode(of_other)).understood == NONE


def test_shard_decodes_the_same_from_metadata_and_hash_as_from_its_text():
    desired = desired_gateway(with_routes=routes(*(f"r{number}" for number in range(PER_SHARD + 1))))
    desired.rebuild()
    whole = manifests.shard_map(desired.shape, 1, desired.routing.shards[1].text)
    bare = {name: value for name, value in whole.items() if name != "data"}
    assert decode_shard(msgspec.json.encode(bare), desired.routing.shards[1].hash) == decode_config_map(
        msgspec.json.encode(whole)
    )


def _stored(routing: dict, desired: DesiredGateway) -> bytes:
    """Return the main ConfigMap as both controllers together write it."""
    vcl = manifests.config_map(desired.shape, desired.vcl, 1)
    annotations = vcl["metadata"]["annotations"] | routing["metadata"].get("annotations", {})
    metadata = {**vcl["metadata"], "annotations": annotations}
    return msgspec.json.encode({**vcl, "metadata": metadata, "data": {**vcl["data"], **routing["data"]}})
