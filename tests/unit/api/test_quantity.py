import pytest

from varnish_gateway.api.quantity import amount


@pytest.mark.parametrize(
    ("text", "number"),
    [("1Ki", 1024), ("1.5Gi", 3 * 2**29), ("1e3", 1000), ("2k", 2000), ("0", 0), (7, 7), ("1P", 10**15)],
)
def test_amount_is_read_in_every_form(text, number):
    assert amount(text) == number


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "50%", "1Kib", None, "four"])
def test_what_is_no_amount_is_none(text):
    assert amount(text) is None
