"""AddressSanitizer is active in varnishd: it reports deliberate errors. Without that, every other test would pass too.

``make asan`` runs this, with a VMOD that has the feature test-memory.
"""

import pytest

from support.varnish.ghost import Config, GhostHarness, SanitizerReport
from support.waiting import until


@pytest.mark.parametrize(
    ("error", "report"), [("use-after-free", "heap-use-after-free"), ("out-of-bounds", "heap-buffer-overflow")]
)
def test_the_sanitizer_reports_an_error_in_the_vmod(error, report):
    with pytest.raises(SanitizerReport, match=report):
        request_with(error)


def request_with(error: str) -> None:
    with GhostHarness(Config(), environment={"GHOST_TEST_MEMORY": error}) as ghost:
        ghost.raw(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        until(lambda: "AddressSanitizer" in ghost.output, "the sanitizer reports")
