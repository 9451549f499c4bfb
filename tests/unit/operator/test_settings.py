"""What an operator is told by its environment."""

import pytest

from varnish_gateway import errors
from varnish_gateway.operator.settings import Settings, from_environment


def test_an_empty_environment_gives_the_defaults():
    assert from_environment({"POD_NAME": "vgw"}) == Settings()


def test_the_time_of_a_lease_can_be_set():
    assert from_environment({"LEASE_SECONDS": "30"}).lease_seconds == 30


@pytest.mark.parametrize("value", ["2.9", "0", "-5", "soon"])
def test_a_lease_that_is_too_short_or_no_number_is_refused(value):
    with pytest.raises(errors.BadSettings, match="LEASE_SECONDS"):
        from_environment({"LEASE_SECONDS": value})
