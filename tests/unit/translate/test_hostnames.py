import pytest

from varnish_gateway.translate.hostnames import meeting, normal


@pytest.mark.parametrize(
    ("listener", "route", "expected"),
    [
        ("*", (), ("*",)),
        ("a.example.com", (), ("*",)),
        ("*", ("a.example.com", "*.example.org"), ("a.example.com", "*.example.org")),
        ("a.example.com", ("a.example.com",), ("a.example.com",)),
        ("a.example.com", ("A.Example.com",), ("a.example.com",)),
        ("a.example.com", ("*.example.com",), ("*.example.com",)),
        ("a.example.com", ("b.example.com",), ()),
        ("*.example.com", ("a.example.com", "a.b.example.com"), ("a.example.com", "a.b.example.com")),
        ("*.example.com", ("example.com",), ()),
        ("*.example.com", ("badexample.com",), ()),
        ("*.example.com", ("*.example.com",), ("*.example.com",)),
        ("*.example.com", ("*.com",), ("*.com",)),
        ("*.example.com", ("*.a.example.com",), ("*.a.example.com",)),
        ("*.example.com", ("*.badexample.com",), ()),
        ("*.example.com", ("a.example.com", "a.example.org"), ("a.example.com",)),
        ("a.example.com", ("*.com", "*.Example.com", "*.example.com"), ("*.com", "*.example.com")),
    ],
)
def test_a_route_keeps_its_own_hostnames_where_they_meet_the_listener(
    listener: str, route: tuple[str, ...], expected: tuple[str, ...]
):
    assert meeting(listener, route) == expected


@pytest.mark.parametrize(("given", "expected"), [(None, "*"), ("", "*"), ("A.Example.COM", "a.example.com")])
def test_normal_form(given: str | None, expected: str):
    assert normal(given) == expected
