import pytest

from support.builders.filters import reasons, redirect, rewrite, translate


@pytest.mark.parametrize("repeatable", ["ExtensionRef", "RequestMirror", "Teleport"])
def test_repeated_unsupported_filter_is_reported_once(repeatable: str):
    assert reasons(translate({"type": repeatable}, {"type": repeatable})) == ["UnsupportedValue"]


def test_redirect_on_a_backend_is_unsupported():
    assert translate(rewrite(hostname="x.org"), on_backend=True).filters is not None
    assert reasons(translate(redirect(port=81), on_backend=True)) == ["UnsupportedValue"]
