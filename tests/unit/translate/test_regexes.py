from varnish_gateway.translate.regexes import why_invalid


def test_a_good_pattern():
    assert why_invalid("/v[0-9]+(/.*)?") is None


def test_a_bad_pattern_says_why():
    assert "unclosed group" in (why_invalid("/(a") or "")


def test_what_a_linear_engine_does_not_have():
    assert why_invalid("(a)\\1") is not None
    assert why_invalid("(?=a)") is not None
