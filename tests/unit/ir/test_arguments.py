import pytest

from varnish_gateway.api.varnish import Http2Parameters, Parameters
from varnish_gateway.ir.arguments import PLAINTEXT_HTTP2, of_class

WORDS = ("-p", "default_ttl=1")


@pytest.mark.parametrize(("is_plaintext", "first"), [(False, ()), (True, PLAINTEXT_HTTP2)])
def test_words_of_the_user_follow_those_of_the_class(is_plaintext, first):
    parameters = Parameters(http2=Http2Parameters(plaintext=is_plaintext), varnishd_extra_args=WORDS)
    assert of_class(parameters) == (*first, *WORDS)


def test_http2_without_tls_comes_with_its_limits():
    assert {"feature=+http2", "h2_rapid_reset_limit=100", "h2_rapid_reset_period=60"} <= set(PLAINTEXT_HTTP2)
    assert set(PLAINTEXT_HTTP2[::2]) == {"-p"}
