"""How often ListenerSets may replace the pods of a Gateway."""

import math
from typing import Any

import msgspec
import pytest
from msgspec import structs

from varnish_gateway.emit import names
from varnish_gateway.emit.manifests import GatewayShape, Installation, objects
from varnish_gateway.ir import Parameters, wire
from varnish_gateway.operator.plan.port_changes import LAST_SECONDS, SKEW_SECONDS, plan, with_record

INSTALLATION = Installation(image="gateway:1")
NOW = 1_700_000_000.0


def own(port: int) -> wire.Listener:
    return wire.Listener(name=f"own-{port}", socket=f"http-{port}", port=port)


def of_set(port: int) -> wire.Listener:
    return wire.Listener(name=f"shop/set/http-{port}", socket=f"http-{port}", port=port)


SHAPE = GatewayShape(namespace="infra", name="edge", uid="1", class_name="varnish", listeners=(own(80),))


def deployment(*listeners: wire.Listener, image: str = "gateway:1", **shape: Any) -> dict[str, Any]:
    made = structs.replace(SHAPE, listeners=(own(80), *listeners), **shape)
    found = objects(made, structs.replace(INSTALLATION, image=image))
    return next(manifest for key, manifest in found.items() if key.kind == "Deployment")


def applied(times: list[float]) -> dict[str, Any]:
    """Return a Deployment after port changes at these times, each of which was due."""
    stored = deployment()
    for number, now in enumerate(times):
        desired = deployment(of_set(9000 + number))
        change = plan(stored, desired, now)
        assert change.wait == 0
        stored = with_record(desired, change.record)
    return stored


def test_first_port_opens_at_once_and_is_recorded():
    change = plan(deployment(), deployment(of_set(9000)), NOW)
    assert (change.wait, change.opening, change.message) == (0.0, ("http-9000",), "")
    stored = with_record(deployment(of_set(9000)), change.record)
    assert stored["metadata"]["annotations"][names.PORT_CHANGES] == "1 2023-11-14T22:13:20Z"


def test_further_ports_wait_twice_as_long_each_time_up_to_an_hour():
    times, waits = [NOW], []
    for _ in range(9):
        stored = applied(times)
        change = plan(stored, deployment(of_set(8000)), times[-1])
        waits.append(change.wait)
        assert "http-8000 of ListenerSets opens at" in change.message
        times.append(times[-1] + change.wait)
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_record_decays_by_one_each_hour_without_a_port_change():
    stored = applied([NOW, NOW + 60, NOW + 180])  # the next one waits 4 minutes
    for hours, wait in ((0, 480), (1, 240), (2, 120), (3, 60), (30, 60)):
        later = NOW + 180 + 240 + hours * 3600
        change = plan(stored, deployment(of_set(8000)), later)
        assert change.wait == 0
        again = with_record(deployment(of_set(8000)), change.record)
        assert plan(again, deployment(of_set(8001)), later).wait == wait


@pytest.mark.parametrize(
    "desired",
    [
        deployment(of_set(9001), image="gateway:2"),
        deployment(of_set(9001), parameters=Parameters(replicas=3)),
        deployment(of_set(9001), labels={"team": "edge"}),
        deployment(of_set(9001), own(8080)),
    ],
    ids=["image", "replicas", "labels", "own port"],
)
def test_other_changes_take_ports_along_and_keep_the_record(desired):
    stored = applied([NOW])
    change = plan(stored, desired, NOW + 1)
    assert (change.wait, change.record) == (0.0, plan(stored, stored, NOW + 1).record)
    assert with_record(desired, change.record)["metadata"]["annotations"][names.PORT_CHANGES].startswith("1 ")


def changed_by_webhook(stored: dict[str, Any]) -> dict[str, Any]:
    """Return a Deployment with the image of a mirror, as a webhook stores each one that we apply."""
    changed = msgspec.json.decode(msgspec.json.encode(stored))
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "mirror/gateway:1"
    return changed


def test_repair_of_what_others_changed_does_not_wait():
    stored = changed_by_webhook(deployment())
    assert plan(stored, deployment(), NOW).wait == 0
    assert plan(stored, deployment(image="gateway:2"), NOW).wait == 0
    assert plan(stored, deployment(of_set(9001)), NOW, pods_open_ports=True).wait == 0, "it takes the port along"


@pytest.mark.parametrize("pods_open_ports", [False, True])
def test_webhook_that_changes_every_deployment_does_not_lift_the_limit(pods_open_ports):
    stored, replaced = changed_by_webhook(deployment()), 0
    for second in range(0, 3600, 5):
        desired = deployment(of_set(9000 + second)) if second % 10 else deployment()
        change = plan(stored, desired, NOW + second, pods_open_ports=pods_open_ports)
        if change.wait == 0 and desired["spec"] != stored["spec"]:
            stored, replaced = changed_by_webhook(with_record(desired, change.record)), replaced + 1
    assert replaced <= 7, "at once, then after 1, 2, 4, 8 and 16 minutes"


def test_number_of_pods_that_others_chose_lifts_no_limit():
    stored = applied([NOW])
    stored["spec"]["replicas"] = 7
    assert plan(stored, deployment(of_set(9001)), NOW + 1).wait == 59


def test_closed_port_waits_for_the_next_change():
    change = plan(deployment(of_set(9000), of_set(9001)), deployment(of_set(9001)), NOW)
    assert (change.wait, change.message) == (math.inf, "")
    both = plan(deployment(of_set(9000)), deployment(of_set(9001)), NOW)
    assert (both.wait, both.opening) == (0.0, ("http-9001",))


def test_port_that_changes_its_protocol_is_opened():
    secure = wire.Listener(name="shop/set/https", socket="https-9000", port=9000, scheme="https")
    assert plan(applied([NOW]), deployment(secure), NOW + 1).opening == ("https-9000",)


@pytest.mark.parametrize("record", ["", "x", "0 2023-11-14T22:13:20Z", "2 yesterday", "-1 2023-11-14T22:13:20Z"])
def test_unreadable_record_limits_nothing(record):
    stored = applied([NOW])
    stored["metadata"]["annotations"][names.PORT_CHANGES] = record
    assert plan(stored, deployment(of_set(9001)), NOW).wait == 0


def test_record_of_a_clock_that_is_ahead_limits_as_long_as_it_can_be_true():
    assert plan(applied([NOW + 10]), deployment(of_set(9001)), NOW).wait == 70
    assert plan(applied([NOW + 300]), deployment(of_set(9001)), NOW).wait == 360
    assert plan(applied([NOW + 301]), deployment(of_set(9001)), NOW).wait == 0
    assert LAST_SECONDS > SKEW_SECONDS


def test_message_about_many_ports_is_short():
    """The Gateway's status repeats it for each listener, and the API server rejects a status that is too large."""
    change = plan(applied([NOW]), deployment(*(of_set(20_000 + number) for number in range(5_000))), NOW + 1)
    assert len(change.opening) == 5_000
    assert len(change.message) < 1_500
    assert " more of ListenerSets opens at 2023-" in change.message


def secure(port: int) -> wire.Listener:
    return wire.Listener(name=f"shop/set/https-{port}", socket=f"https-{port}", port=port, scheme="https")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((), (of_set(9000),)),
        ((), (secure(9000),)),
        ((secure(9000),), (of_set(9000),)),
        ((of_set(9000),), (of_set(9001),)),
    ],
    ids=["plain", "TLS", "from TLS to plain", "another one"],
)
def test_pods_that_open_ports_are_not_replaced_for_them(before, after):
    change = plan(deployment(*before), deployment(*after), NOW, pods_open_ports=True)
    assert (change.wait, change.message) == (math.inf, "")
    assert plan(deployment(*before), deployment(*after), NOW).wait == 0, "pods without the capability are"


def test_port_that_varnishd_has_and_that_changes_to_tls_still_replaces_pods_at_growing_intervals():
    stored = applied([NOW])
    change = plan(stored, deployment(secure(9000)), NOW + 1, pods_open_ports=True)
    assert (change.wait, change.opening) == (59, ("https-9000",))


def test_own_ports_of_the_gateway_replace_pods_that_open_ports_too():
    change = plan(deployment(of_set(9000)), deployment(of_set(9001), own(8080)), NOW, pods_open_ports=True)
    assert change.wait == 0
