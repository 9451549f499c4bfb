"""HTTP/2 without TLS: only by request, with a varnishd that limits rapid resets. Threads: no more than can exist."""

import pytest

from varnish_gateway.dataplane.varnish.parameters import missing_limit, parameters, thread_limit
from varnish_gateway.ir.arguments import PLAINTEXT_HTTP2

# What the two versions say that images have had: 7.1 of Debian 12, 7.7 of Debian 13.
OF_7_1 = """\
h2_max_concurrent_streams
~~~~~~~~~~~~~~~~~~~~~~~~~
\t* Default: 100

See h2_rapid_reset_limit in later versions.
"""
OF_7_7 = """\
h2_rapid_reset
~~~~~~~~~~~~~~
\t* Default: 1.000

h2_rapid_reset_limit
~~~~~~~~~~~~~~~~~~~~
\t* Default: 100
"""


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        (None, ()),
        (10_200, ()),
        (4096, ("-p", "thread_pool_max=1948")),
        (150, ("-p", "thread_pool_max=100")),
    ],
)
def test_threads_fit_into_the_limit_on_tasks(tasks, words):
    assert thread_limit(tasks) == words


def test_http2_is_off_by_default():
    words = parameters()
    assert "workspace_client=96k" in words
    assert set(words[::2]) == {"-p"}
    assert not any("h2_" in word or "http2" in word for word in words)


@pytest.fixture
def varnishd(tmp_path, monkeypatch):
    def writes(text: str, status: int = 0) -> None:
        (tmp_path / "text").write_text(text)
        program = tmp_path / "varnishd"
        program.write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/text\nexit {status}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))

    return writes


@pytest.mark.parametrize(
    ("text", "words", "is_missing"),
    [
        (OF_7_1, PLAINTEXT_HTTP2, True),
        (OF_7_1, (*PLAINTEXT_HTTP2, "-p", "feature=-http2"), True),
        (OF_7_1, ("-p", "feature=+http2"), False),
        (OF_7_1, (), False),
        (OF_7_7, PLAINTEXT_HTTP2, False),
        ("", PLAINTEXT_HTTP2, False),
    ],
)
async def test_class_has_http2_without_tls_only_with_a_varnishd_that_limits_resets(varnishd, text, words, is_missing):
    varnishd(text)
    problem = await missing_limit(words)
    assert (problem is not None) == is_missing
    if problem is not None:
        assert "http2.plaintext of the GatewayClassParameters needs a varnishd that limits" in str(problem)


async def test_varnishd_that_can_not_be_asked_is_left_to_its_start(varnishd, monkeypatch, tmp_path):
    varnishd(OF_7_1, status=1)
    assert await missing_limit(PLAINTEXT_HTTP2) is None
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert await missing_limit(PLAINTEXT_HTTP2) is None
