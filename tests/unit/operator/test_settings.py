"""Settings of the operator, from its environment."""

import pytest

from varnish_gateway import errors
from varnish_gateway.operator.settings import OperatorSettings, from_environment
from varnish_gateway.runtime.environment import Address


def test_empty_environment_gives_the_defaults():
    assert from_environment({"POD_NAME": "vgw"}) == OperatorSettings()


def test_lease_seconds_are_read_from_the_environment():
    assert from_environment({"LEASE_SECONDS": "30"}).lease_seconds == 30


def test_rollouts_at_once_are_read_from_the_environment():
    assert from_environment({"ROLLOUTS_AT_ONCE": "20"}).rollouts_at_once == 20


def test_invalidations_are_served_where_the_environment_says():
    assert from_environment({"INVALIDATION_ADDR": ":8082"}).invalidation == Address("", 8082)
    with pytest.raises(errors.BadSettings, match="INVALIDATION_ADDR: '8082' is not an address"):
        from_environment({"INVALIDATION_ADDR": "8082"})


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "all"])
def test_rollouts_at_once_that_are_no_number_are_rejected(value):
    with pytest.raises(errors.BadSettings, match="ROLLOUTS_AT_ONCE"):
        from_environment({"ROLLOUTS_AT_ONCE": value})


@pytest.mark.parametrize("value", ["2.9", "0", "-5", "soon"])
def test_lease_seconds_too_short_or_not_a_number_are_rejected(value):
    with pytest.raises(errors.BadSettings, match="LEASE_SECONDS"):
        from_environment({"LEASE_SECONDS": value})
