import pytest
from hypothesis import given
from hypothesis import strategies as st

from varnish_gateway.translate.durations import milliseconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0s", 0), ("500ms", 500), ("1s", 1000), ("1m", 60_000), ("1h30m", 5_400_000), ("1h1m1s1ms", 3_661_001)],
)
def test_duration_is_milliseconds(text: str, expected: int):
    assert milliseconds(text) == expected


@pytest.mark.parametrize("text", ["", "1", "s", "-1s", "1.5s", "1d", "1s ", "123456s", "1s1s1s1s1s", "\uff11s"])
def test_invalid_duration_is_none(text: str):
    assert milliseconds(text) is None


@given(st.lists(st.tuples(st.integers(0, 99_999), st.sampled_from(["h", "m", "s", "ms"])), min_size=1, max_size=4))
def test_parts_add_up(parts):
    whole = "".join(f"{number}{unit}" for number, unit in parts)
    assert milliseconds(whole) == sum(milliseconds(f"{number}{unit}") for number, unit in parts)
