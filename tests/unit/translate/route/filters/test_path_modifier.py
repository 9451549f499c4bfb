from support.builders.filters import EXACT, PREFIX, reasons, redirect, rewrite, translate


def test_prefix_replacement_without_a_prefix_match_is_unsupported():
    path = {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/b"}
    assert reasons(translate(rewrite(path=path), matches=EXACT)) == ["UnsupportedValue"]
    assert reasons(translate(redirect(path=path), matches=EXACT)) == ["UnsupportedValue"]
    assert reasons(translate(rewrite(path=path), matches=PREFIX)) == []
