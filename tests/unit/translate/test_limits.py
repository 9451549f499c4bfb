"""Input over a limit becomes a condition on its own object and affects no other."""

import msgspec
from msgspec import structs

from support.builders.objects import gateway, keyed, listener_set
from varnish_gateway import api
from varnish_gateway.api import Key, key_of
from varnish_gateway.decoding import decode
from varnish_gateway.ir import Delta, UserVclUnavailable
from varnish_gateway.translate import Translator

GROUP = "gateway.networking.k8s.io/v1"


def objects(*, path: str = "/", vcl: str | None = None) -> list[api.Object]:
    ref = {"group": "gateway.varnish-software.com", "kind": "GatewayClassParameters", "name": "p"}
    documents = [
        {
            "apiVersion": GROUP,
            "kind": "GatewayClass",
            "metadata": {"name": "varnish"},
            "spec": {"controllerName": "varnish-software.com/gateway"} | ({"parametersRef": ref} if vcl else {}),
        },
        {
            "apiVersion": "gateway.varnish-software.com/v1alpha1",
            "kind": "GatewayClassParameters",
            "metadata": {"name": "p"},
            "spec": {"userVCLConfigMapRef": {"name": "vcl", "namespace": "shop"}},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "vcl", "namespace": "shop"},
            "data": {"user.vcl": vcl or ""},
        },
        {
            "apiVersion": GROUP,
            "kind": "Gateway",
            "metadata": {"name": "gw", "namespace": "shop"},
            "spec": {"gatewayClassName": "varnish", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
        },
        {
            "apiVersion": GROUP,
            "kind": "HTTPRoute",
            "metadata": {"name": "tea", "namespace": "shop"},
            "spec": {
                "parentRefs": [{"name": "gw"}],
                "rules": [{"matches": [{"path": {"type": "Exact", "value": path}}]}],
            },
        },
    ]
    return [decode(document) for document in documents]


def translated(given: list[api.Object], **limits: int):
    return Translator(**limits).update({key_of(obj): obj for obj in given})


def test_route_that_is_too_large_is_rejected_and_answers_500():
    delta = translated(objects(path="/" + "x" * 1000), route_limit=500)
    (parent,) = delta.statuses[Key("HTTPRoute", "shop", "tea")].parents
    accepted = parent.conditions[0]
    assert (accepted.status, accepted.reason) == ("False", "UnsupportedValue")
    assert "split the route" in accepted.message
    (route,) = delta.gateways[Key("Gateway", "shop", "gw")].routes.values()
    assert [rule.status for rule in route.rules] == [500]
    (rule,) = route.rules
    assert rule.matches[0].path.type == "regex"
    assert rule.approximate, "it comes after the rules of other routes"
    assert len(msgspec.json.encode(route)) < 500


def test_route_on_too_many_listeners_is_rejected_and_not_served():
    """The hostnames repeat on each listener: one route of a few kilobytes would not fit into a ConfigMap."""
    (*others, route) = objects()
    hosts = tuple(f"{'x' * 60}.h{number}.example.com" for number in range(16))
    many = structs.replace(route, spec=structs.replace(route.spec, hostnames=hosts))
    delta = translated([*others, many], attachments_limit=1000)
    (parent,) = delta.statuses[Key("HTTPRoute", "shop", "tea")].parents
    assert (parent.conditions[0].status, parent.conditions[0].reason) == ("False", "UnsupportedValue")
    assert "name fewer listeners in parentRefs" in parent.conditions[0].message
    key = Key("Gateway", "shop", "gw")
    assert delta.gateways[key].routes == {}
    assert delta.statuses[key].listeners[0].attached_routes == 0


def test_a_route_within_the_limit_is_served():
    delta = translated(objects(), route_limit=500, attachments_limit=100)
    assert delta.statuses[Key("HTTPRoute", "shop", "tea")].parents[0].conditions[0].status == "True"


def test_user_vcl_that_is_too_large_is_unavailable_and_names_the_limit():
    delta = translated(objects(vcl="#" * 1001), vcl_limit=1000)
    found = delta.gateways[Key("Gateway", "shop", "gw")].user_vcl
    assert isinstance(found, UserVclUnavailable)
    assert "1,001 bytes; the limit is 1,000" in found.reason


def many_listeners(name: str, namespace: str, day: int, count: int = 10) -> api.ListenerSet:
    listeners = ({"name": f"p{n}", "port": 8000 + 100 * day + n, "protocol": "HTTP"} for n in range(count))
    metadata = {"creationTimestamp": f"2024-01-{day:02}T00:00:00Z"}
    return listener_set(name, *listeners, namespace=namespace, metadata=metadata)


def accepted(delta: Delta, namespace: str, name: str) -> str:
    return delta.statuses[Key("ListenerSet", namespace, name)].conditions[0].status


def test_listeners_of_a_tenant_leave_the_most_of_the_quota_to_others():
    """All listeners travel in one ConfigMap: one that is too large would freeze the routing of all tenants."""
    sets = [many_listeners(f"s{day}", "hostile", day) for day in range(1, 9)]
    modest = many_listeners("web", "modest", 20)
    allowing = gateway(allowedListeners={"namespaces": {"from": "All"}})
    translator = Translator(assume_class=True, listeners_limit=10_000)  # 2,500 for a namespace
    delta = translator.update(keyed(allowing, *sets, modest))
    assert [accepted(delta, "hostile", f"s{day}") for day in range(1, 9)] == ["True", "True", *["False"] * 6]
    assert accepted(delta, "modest", "web") == "True"
    status = delta.statuses[Key("ListenerSet", "hostile", "s3")]
    assert "use another Gateway" in status.listeners[0].conditions[0].message
    (served,) = (one for key, one in delta.gateways.items() if key.name == "gw")
    assert {one.name.rpartition("/")[0] for one in served.placed} == {"", "hostile/s1", "hostile/s2", "modest/web"}
    assert len(msgspec.json.encode(served.placed)) < 10_000
    freed = translator.update({key_of(sets[0]): None})
    assert accepted(freed, "hostile", "s3") == "True"


def test_listeners_of_many_tenants_stay_within_the_quota_of_the_gateway():
    sets = [many_listeners("set", f"tenant-{day:02}", day) for day in range(1, 20)]
    allowing = gateway(allowedListeners={"namespaces": {"from": "All"}})
    delta = Translator(assume_class=True, listeners_limit=10_000).update(keyed(allowing, *sets))
    found = [accepted(delta, f"tenant-{day:02}", "set") for day in range(1, 20)]
    assert found == ["True"] * 8 + ["False"] * 11, "the oldest come first"
    (served,) = (one for key, one in delta.gateways.items() if key.name == "gw")
    assert len(msgspec.json.encode(served.placed)) < 10_000
