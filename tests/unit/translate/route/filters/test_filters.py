import pytest

from support.builders.objects import route
from varnish_gateway.ir import wire
from varnish_gateway.translate.route.filters.filters import (
    NOTHING,
    Translated,
    translate_backend_filters,
    translate_filters,
)

PREFIX = (wire.Match(path=wire.PathMatch(type="prefix", value="/a")),)
EXACT = (wire.Match(path=wire.PathMatch(type="exact", value="/a")),)


def translate(*filters: dict, matches: tuple[wire.Match, ...] = PREFIX, on_backend: bool = False) -> Translated:
    specs = route(rules=[{"filters": filters}]).spec.rules[0].filters
    return (translate_backend_filters if on_backend else translate_filters)(specs, matches)


def request_headers(**modifier) -> dict:
    return {"type": "RequestHeaderModifier", "requestHeaderModifier": modifier}


def redirect(**fields) -> dict:
    return {"type": "RequestRedirect", "requestRedirect": fields}


def rewrite(**fields) -> dict:
    return {"type": "URLRewrite", "urlRewrite": fields}


def reasons(translated: Translated) -> list[str]:
    return [problem.reason for problem in translated.problems]


def test_no_filters():
    assert translate() is NOTHING


def test_header_modifiers():
    got = translate(
        request_headers(set=[{"name": "A", "value": "1"}], add=[{"name": "B", "value": "2"}], remove=["C"]),
        {"type": "ResponseHeaderModifier", "responseHeaderModifier": {"remove": ["D"]}},
    )
    assert got.filters == wire.Filters(
        request=wire.HeaderModifier(
            set=(wire.Header(name="A", value="1"),), add=(wire.Header(name="B", value="2"),), remove=("C",)
        ),
        response=wire.HeaderModifier(remove=("D",)),
    )
    assert not got.problems


def test_of_equivalent_header_names_the_first_counts():
    got = translate(request_headers(set=[{"name": "A", "value": "1"}, {"name": "a", "value": "2"}]))
    assert got.filters.request.set == (wire.Header(name="A", value="1"),)


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\x00"])
def test_a_header_value_that_would_break_the_message(value: str):
    assert reasons(translate(request_headers(add=[{"name": "A", "value": value}]))) == ["UnsupportedValue"]


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding"])
def test_nothing_changes_where_a_message_ends(name: str):
    header = {"name": name, "value": "1"}
    for modifier in ({"set": [header]}, {"add": [header]}, {"remove": [name]}):
        assert reasons(translate(request_headers(**modifier))) == ["UnsupportedValue"]


def test_one_header_has_one_action():
    one, two = {"name": "A", "value": "1"}, {"name": "a", "value": "2"}
    for modifier in ({"set": [one], "add": [two]}, {"add": [one], "remove": ["a"]}, {"set": [one], "remove": ["a"]}):
        assert reasons(translate(request_headers(**modifier))) == ["UnsupportedValue"]


def test_a_redirect_with_everything():
    path = {"type": "ReplaceFullPath", "replaceFullPath": "/b"}
    got = translate(redirect(scheme="https", hostname="x.org", port=8443, statusCode=301, path=path))
    assert got.redirect == wire.Redirect(
        scheme="https",
        hostname="x.org",
        port=8443,
        status=301,
        path=wire.PathModifier(type="full", value="/b"),
    )
    assert got.filters is None


def test_a_rewrite_of_the_prefix_also_by_nothing():
    path = {"type": "ReplacePrefixMatch", "replacePrefixMatch": ""}
    assert translate(rewrite(hostname="x.org", path=path)).filters == wire.Filters(
        rewrite=wire.Rewrite(hostname="x.org", path=wire.PathModifier(type="prefix", value=""))
    )


def test_a_prefix_can_only_be_replaced_where_one_was_matched():
    path = {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/b"}
    assert reasons(translate(rewrite(path=path), matches=EXACT)) == ["UnsupportedValue"]
    assert reasons(translate(redirect(path=path), matches=EXACT)) == ["UnsupportedValue"]
    assert reasons(translate(rewrite(path=path), matches=PREFIX)) == []


@pytest.mark.parametrize(
    "unsupported",
    [
        {"type": "RequestMirror"},
        {"type": "CORS"},
        {"type": "ExtensionRef"},
        {"type": "ExternalAuth"},
        {"type": "Teleport"},
        {"type": "URLRewrite"},
        redirect(scheme="gopher"),
        redirect(statusCode=305),
        rewrite(path={"type": "ReplaceSuffix"}),
        rewrite(path={"type": "ReplaceFullPath", "replaceFullPath": "/a b"}),
        rewrite(path={"type": "ReplaceFullPath", "replaceFullPath": "/a?b"}),
        redirect(path={"type": "ReplacePrefixMatch", "replacePrefixMatch": "/a#b"}),
    ],
    ids=str,
)
def test_what_is_not_supported(unsupported: dict):
    assert reasons(translate(unsupported)) == ["UnsupportedValue"]


def test_what_can_not_be_combined():
    assert reasons(translate(redirect(port=81), rewrite(hostname="x.org"))) == ["IncompatibleFilters"]
    assert reasons(translate(request_headers(remove=["a"]), request_headers(remove=["b"]))) == ["IncompatibleFilters"]


@pytest.mark.parametrize("repeatable", ["ExtensionRef", "RequestMirror", "Teleport"])
def test_what_may_be_repeated_is_only_not_supported(repeatable: str):
    assert reasons(translate({"type": repeatable}, {"type": repeatable})) == ["UnsupportedValue"]


def test_a_backend_has_the_same_filters_but_no_redirect():
    assert translate(rewrite(hostname="x.org"), on_backend=True).filters is not None
    assert reasons(translate(redirect(port=81), on_backend=True)) == ["UnsupportedValue"]
