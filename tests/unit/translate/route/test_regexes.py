from varnish_gateway.translate.route.regexes import why_invalid


def test_valid_pattern_has_no_problem():
    assert why_invalid("/v[0-9]+(/.*)?") is None


def test_invalid_pattern_has_a_reason():
    assert "unclosed group" in (why_invalid("/(a") or "")


def test_unsupported_regex_syntax_is_rejected():
    assert why_invalid("(a)\\1") is not None
    assert why_invalid("(?=a)") is not None


def test_long_pattern_is_quoted_by_its_beginning():
    why = why_invalid("(" + "a" * 3000) or ""
    assert why.startswith('"(' + "a" * 78 + '…" is not a regular expression: unclosed group')
    too_large = why_invalid("(a{1000}){1000}" + "b" * 3000) or ""
    assert '"(a{1000}){1000}bbb' in too_large
    assert len(too_large) < 250
