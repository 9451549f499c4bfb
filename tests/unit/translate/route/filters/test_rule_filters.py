import pytest

from support.builders.filters import reasons, redirect, request_headers, rewrite, translate
from varnish_gateway.translate.route.filters.rule_filters import NO_FILTERS


def test_rule_without_filters_has_none():
    assert translate() is NO_FILTERS


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
def test_filter_that_can_not_be_carried_out_is_unsupported(unsupported: dict):
    assert reasons(translate(unsupported)) == ["UnsupportedValue"]


def test_filters_that_exclude_each_other_are_incompatible():
    assert reasons(translate(redirect(port=81), rewrite(hostname="x.org"))) == ["IncompatibleFilters"]
    assert reasons(translate(request_headers(remove=["a"]), request_headers(remove=["b"]))) == ["IncompatibleFilters"]
