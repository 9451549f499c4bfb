"""What a class adds to varnishd's command line.

In:   the parameters of a class.
Out:  words. The user's own arguments come last, and so win.
"""

from varnish_gateway.api.varnish import Parameters

# A client that resets each stream at once has varnishd fetch without end, at no cost of its own
# (CVE-2023-44487). So there is no HTTP/2 without a limit on such resets: varnishd rejects parameters that it lacks.
PLAINTEXT_HTTP2 = tuple(
    word
    for parameter in ("feature=+http2", "h2_rapid_reset=1", "h2_rapid_reset_limit=100", "h2_rapid_reset_period=60")
    for word in ("-p", parameter)
)


def of_class(parameters: Parameters) -> tuple[str, ...]:
    """Return the words for what the class asks of varnishd, but for its store."""
    return (*(PLAINTEXT_HTTP2 if parameters.http2.plaintext else ()), *parameters.varnishd_extra_args)
