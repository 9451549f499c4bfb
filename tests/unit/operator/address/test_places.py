"""Places at the addresses of Gateways: no namespace takes those of another."""

import contextlib

from varnish_gateway.operator.address.places import IN_ALL, OF_NAMESPACE, PER_SECOND, Places


def admitted(places: Places, namespace: str, count: int, now: float) -> int:
    return sum(places.admits(namespace, now) for _ in range(count))


def test_namespace_has_a_burst_and_then_few_a_second():
    places = Places()
    assert admitted(places, "shop", 2 * OF_NAMESPACE, 0.0) == OF_NAMESPACE
    assert admitted(places, "shop", 2 * OF_NAMESPACE, 1.0) == PER_SECOND
    assert admitted(places, "blog", 1, 1.0) == 1


def test_held_places_count_until_they_are_given_back():
    places = Places()
    with contextlib.ExitStack() as held:
        for number in range(IN_ALL):
            namespace = f"n{number % (IN_ALL // OF_NAMESPACE)}"
            assert places.admits(namespace, float(number))
            held.enter_context(places.held(namespace))
        assert not places.admits("n0", 1000.0)
        assert not places.admits("other", 1000.0)
    assert places.admits("other", 1000.0)
