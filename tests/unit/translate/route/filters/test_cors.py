import pytest

from varnish_gateway.api.gateway_networking import HTTPCORSFilter
from varnish_gateway.ir import wire
from varnish_gateway.translate.route.filters.cors import translate_cors


def test_every_parameter_is_kept():
    source = HTTPCORSFilter(
        allow_origins=("https://A.org", "https://*.b.org:8443", "http://*"),
        allow_methods=("GET", "PUT"),
        allow_headers=("X-A",),
        expose_headers=("*",),
        allow_credentials=True,
        max_age=60,
    )
    problems: list = []
    assert translate_cors(source, problems) == wire.Cors(
        origins=("https://a.org", "https://*.b.org:8443", "http://*"),
        methods=("GET", "PUT"),
        headers=("X-A",),
        expose=("*",),
        credentials=True,
        max_age=60,
    )
    assert not problems


def test_the_little_that_is_needed():
    problems: list = []
    assert translate_cors(HTTPCORSFilter(), problems) == wire.Cors()
    assert translate_cors(HTTPCORSFilter(allow_origins=("*",)), problems) == wire.Cors(origins=("*",))
    assert not problems


@pytest.mark.parametrize(
    "origin",
    ["a.org", "ftp://a.org", "https://", "https://a.org/", "https://a.*.org", "https://a.org:0", "https://a.org:65536"],
)
def test_an_origin_has_a_form(origin: str):
    problems: list = []
    translate_cors(HTTPCORSFilter(allow_origins=(origin,)), problems)
    assert [problem.reason for problem in problems] == ["UnsupportedValue"]
    assert origin in problems[0].message


@pytest.mark.parametrize("field", ["allow_methods", "allow_headers", "expose_headers"])
def test_names_are_names(field: str):
    problems: list = []
    translate_cors(HTTPCORSFilter(**{field: ("X-Fine", "a: b\r\nc")}), problems)
    assert len(problems) == 1
