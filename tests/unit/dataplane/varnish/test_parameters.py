"""HTTP/2 without TLS: only with a varnishd that limits rapid resets."""

import logging

import pytest

from varnish_gateway.dataplane.varnish.parameters import installed_parameters, parameters, report_http2

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


def test_http2_is_off_where_varnishd_does_not_limit_resets():
    words = parameters(OF_7_1)
    assert "workspace_client=96k" in words
    assert not any("h2_" in word or "http2" in word for word in words)
    assert parameters("") == words


def test_http2_comes_with_its_limits():
    words = parameters(OF_7_7)
    assert {"feature=+http2", "h2_rapid_reset_limit=100", "h2_rapid_reset_period=60"} <= set(words)
    assert set(words[::2]) == {"-p"}


@pytest.fixture
def varnishd(tmp_path, monkeypatch):
    def writes(text: str, status: int = 0) -> None:
        (tmp_path / "text").write_text(text)
        program = tmp_path / "varnishd"
        program.write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/text\nexit {status}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))

    return writes


@pytest.mark.parametrize(("text", "lines"), [(OF_7_1, 1), (OF_7_7, 0)])
async def test_the_log_says_that_http2_is_off(varnishd, caplog, text, lines):
    varnishd(text)
    words = await installed_parameters()
    assert words == parameters(text)
    with caplog.at_level(logging.WARNING):
        report_http2(words)
    assert len([record for record in caplog.records if "HTTP/2 is off" in record.message]) == lines


async def test_without_an_answer_of_varnishd_http2_is_off(varnishd, monkeypatch, tmp_path):
    varnishd(OF_7_7, status=1)
    assert await installed_parameters() == parameters("")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert await installed_parameters() == parameters("")
