"""How many Gateways get new pods at once when the operator itself changes."""

from typing import Any

import msgspec
import pytest

from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.operator.execute.rollouts import LONGEST_SECONDS, Rollouts, is_rolling
from varnish_gateway.operator.observe.owned import OwnedObject, decode_object

KEYS = [Key("Deployment", "shop", name) for name in ("a", "b", "c")]
A, B, C = KEYS
ROLLING = {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 2}
DONE = {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}


def deployment(key: Key, template: str, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "generation": 2,
            "annotations": {names.TEMPLATE: template},
        },
        "spec": {"replicas": 2, **spec},
        "status": DONE if status is None else status,
    }


def owned(*arguments: Any, **spec: Any) -> OwnedObject:
    return decode_object(msgspec.json.encode(deployment(*arguments, **spec)))


@pytest.fixture
def observed() -> dict[Key, OwnedObject]:
    """Deployments of an earlier operator."""
    return {key: owned(key, "old") for key in KEYS}


def allowed(rollouts: Rollouts, observed: dict[Key, OwnedObject], now: float = 0.0) -> list[Key]:
    return [key for key in KEYS if rollouts.may_apply(key, observed[key], deployment(key, "new"), now)]


def test_upgrade_begins_with_a_bounded_number_of_gateways(observed):
    assert allowed(Rollouts(observed, 2), observed) == [A, B]


def test_next_gateway_follows_when_the_pods_of_another_are_replaced(observed):
    rollouts = Rollouts(observed, 1)
    assert allowed(rollouts, observed) == [A]
    observed[A] = owned(A, "new", ROLLING)
    assert B not in allowed(rollouts, observed)
    observed[A] = owned(A, "new")
    assert B in allowed(rollouts, observed)


def test_write_that_is_not_observed_yet_occupies_its_place(observed):
    rollouts = Rollouts(observed, 1)
    assert allowed(rollouts, observed) == [A]
    assert allowed(rollouts, observed) == [A], "and it may be repeated"


def test_deployment_that_could_not_be_applied_frees_its_place(observed):
    rollouts = Rollouts(observed, 1)
    assert rollouts.may_apply(A, observed[A], deployment(A, "new"), 0.0)
    rollouts.cancel(A)
    assert rollouts.may_apply(B, observed[B], deployment(B, "new"), 0.0)


def test_stuck_rollout_does_not_stop_an_upgrade_for_ever(observed):
    rollouts = Rollouts(observed, 1)
    allowed(rollouts, observed)
    observed[A] = owned(A, "new", ROLLING)
    assert B not in allowed(rollouts, observed, LONGEST_SECONDS - 1)
    assert rollouts.may_apply(B, observed[B], deployment(B, "new"), LONGEST_SECONDS)


def test_deleted_gateway_frees_its_place(observed):
    rollouts = Rollouts(observed, 1)
    allowed(rollouts, observed)
    del observed[A]
    assert rollouts.may_apply(B, observed[B], deployment(B, "new"), 0.0)


def test_change_that_a_gateway_asks_for_never_waits(observed):
    rollouts = Rollouts(observed, 1)
    allowed(rollouts, observed)
    assert rollouts.may_apply(B, observed[B], deployment(B, "old", replicas=7), 0.0)


def test_new_leader_counts_the_rollouts_of_the_previous_one(observed):
    observed[A] = owned(A, "new", ROLLING)
    rollouts = Rollouts(observed, 1)
    rollouts.resume({key: deployment(key, "new") for key in KEYS}, 0.0)
    assert allowed(rollouts, observed) == [A]


@pytest.mark.parametrize(
    ("status", "spec", "expected"),
    [
        (DONE, {}, False),
        (ROLLING, {}, True),
        (DONE | {"observedGeneration": 1}, {}, True),
        (DONE | {"replicas": 3}, {}, True),
        ({}, {}, True),
        (DONE | {"availableReplicas": 1}, {}, False),
        (ROLLING, {"paused": True}, False),
        (ROLLING | {"conditions": [{"type": "Progressing", "status": "False"}]}, {}, False),
    ],
    ids=["done", "some", "unseen", "old pod left", "no status", "lost node", "paused", "failed"],
)
def test_rollout_lasts_until_no_pod_of_an_earlier_template_is_left(status, spec, expected):
    assert is_rolling(deployment(A, "new", status, **spec)) is expected
