import pytest

from varnish_gateway.translate.hostnames import intersect, normal


@pytest.mark.parametrize(
    ("listener", "route", "common"),
    [
        ("*", (), ("*",)),
        ("a.example.com", (), ("a.example.com",)),
        ("*", ("a.example.com", "*.example.org"), ("a.example.com", "*.example.org")),
        ("a.example.com", ("a.example.com",), ("a.example.com",)),
        ("a.example.com", ("A.Example.com",), ("a.example.com",)),
        ("a.example.com", ("*.example.com",), ("a.example.com",)),
        ("a.example.com", ("b.example.com",), ()),
        ("*.example.com", ("a.example.com", "a.b.example.com"), ("a.example.com", "a.b.example.com")),
        ("*.example.com", ("example.com",), ()),
        ("*.example.com", ("badexample.com",), ()),
        ("*.example.com", ("*.example.com",), ("*.example.com",)),
        ("*.example.com", ("*.com",), ("*.example.com",)),
        ("*.example.com", ("*.a.example.com",), ("*.a.example.com",)),
        ("*.example.com", ("*.badexample.com",), ()),
        ("*.example.com", ("a.example.com", "a.example.org"), ("a.example.com",)),
        ("a.example.com", ("*.com", "*.example.com"), ("a.example.com",)),
    ],
)
def test_intersection(listener: str, route: tuple[str, ...], common: tuple[str, ...]):
    assert intersect(listener, route) == common


@pytest.mark.parametrize(("given", "wanted"), [(None, "*"), ("", "*"), ("A.Example.COM", "a.example.com")])
def test_normal_form(given: str | None, wanted: str):
    assert normal(given) == wanted
