import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from varnish_gateway.emit import names

DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
LONGEST = "1." + "very-long." * 25 + "x"

gateway_names = st.from_regex(SUBDOMAIN, fullmatch=True).filter(lambda name: len(name) <= 253) | st.sampled_from(
    ["a", "a.b", "a-b", "1a", "a" * 63, "a" * 64, "a" * 253, LONGEST, f"{'a' * 52}.{'b' * 10}"]
)


def test_a_short_name_stays_as_it_is():
    assert names.workload("web") == "web-vgw"
    assert names.config_map("web") == "web-vcl"
    assert names.config_map("web", 3) == "web-vcl-3"
    assert names.secret("web") == "web-vgw-tls"
    assert names.config_map("1.web") == "1.web-vcl"  # a ConfigMap may be called so, a Service may not


@given(gateway_names)
@example("web")
@example("web-vgw")
def test_no_object_but_a_config_map_is_called_like_its_gateway_or_the_certificate_of_that(gateway: str):
    assert names.workload(gateway) not in (gateway, f"{gateway}-tls")
    assert names.secret(gateway) not in (gateway, f"{gateway}-tls")


@given(gateway_names)
@example(LONGEST)
@example("a" * 51 + "." + "b" * 20)
def test_every_name_is_valid(gateway: str):
    assert DNS_LABEL.fullmatch(names.workload(gateway))
    for name in (
        names.config_map(gateway),
        names.config_map(gateway, 9999),
        names.secret(gateway),
        names.endpoints_binding("shop", gateway),
    ):
        assert SUBDOMAIN.fullmatch(name)
        assert len(name) <= 253
    assert all(LABEL.fullmatch(value) for value in names.labels("shop", gateway, gateway).values())


@given(gateway_names, gateway_names)
@example("a.b", "a-b")
@example("a" * 253, "a" * 252)
def test_two_gateways_never_share_a_name(one: str, other: str):
    assume(one != other)
    for made in (names.workload, names.config_map, names.secret, names.label_value, names.former_workload):
        assert made(one) != made(other)
    shards = {names.config_map(one, shard) for shard in (0, 1, 11)}
    assert not shards & {names.config_map(other, shard) for shard in (0, 1, 11)}


@pytest.mark.parametrize("gateway", ["a.b", "1", LONGEST, "a" * 64])
def test_gateway_called_like_the_workload_of_another_has_its_own_names(gateway: str):
    other = names.workload(gateway)
    assert not {names.workload(gateway), names.secret(gateway)} & {names.workload(other), names.secret(other)}


@pytest.mark.parametrize("gateway", ["a.b", "1", LONGEST, "a" * 64])
def test_a_gateway_called_like_a_made_name_gets_another_one(gateway: str):
    made = names.workload(gateway)
    assert names.workload(made) != made
    assert names.pod_selector(names.label_value(LONGEST)) != names.pod_selector(LONGEST)


def test_gateways_of_two_namespaces_meet_in_a_third_under_names_of_their_own():
    assert names.endpoints_binding("a", "web") != names.endpoints_binding("b", "web")
    assert names.endpoints_binding("a", "b-web") != names.endpoints_binding("a-b", "web")


def test_owned_selector_matches_generated_labels():
    labels = names.labels("shop", "web", "varnish")
    assert all(
        labels[key] == value for key, value in (part.split("=") for part in names.owned_selector("varnish").split(","))
    )
    assert len(names.owned_selector("c" * 253).split("=")[-1]) == 63


def test_pod_selector_uses_only_immutable_labels():
    assert names.pod_selector("web") == {
        "app.kubernetes.io/name": "varnish-gateway",
        "gateway.networking.k8s.io/gateway-name": "web",
    }
