from varnish_gateway.api import Key
from varnish_gateway.translate.ports import Ports

A, B, C = (Key("Gateway", "default", name) for name in "abc")


def test_the_oldest_has_the_port():
    ports = Ports()
    ports.claim(A, frozenset({80}), created=2)
    assert ports.owners == {80: A}
    ports.claim(B, frozenset({80}), created=1)
    assert ports.owners == {80: B}


def test_of_the_same_age_the_first_by_namespace_and_name():
    ports = Ports()
    for key in (C, B, Key("Gateway", "zoo", "a")):
        ports.claim(key, frozenset({80}), created=1)
    assert ports.owners == {80: B}


def test_a_port_goes_to_the_next_one():
    ports = Ports()
    ports.claim(A, frozenset({80, 81}), created=1)
    ports.claim(B, frozenset({80}), created=2)
    assert set(ports.claim(A, frozenset({81}), created=1)) == {80, 81}
    assert ports.owners == {80: B, 81: A}
    ports.claim(B, frozenset(), created=0)
    ports.claim(A, frozenset(), created=0)
    assert ports.owners == {}


def test_age_can_change():
    ports = Ports()
    ports.claim(A, frozenset({80}), created=1)
    ports.claim(B, frozenset({80}), created=2)
    ports.claim(A, frozenset({80}), created=3)
    assert ports.owners == {80: B}
