"""Colours appear only on a terminal."""

import io

import pytest

from varnish_gateway.runtime.terminal import Paint


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_terminal_output_has_colours():
    assert Paint(Terminal())("red", "x") == "\x1b[31mx\x1b[0m"


def test_file_output_has_no_colours():
    assert Paint(io.StringIO())("red", "x") == "x"


def test_no_color_disables_colours(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert Paint(Terminal())("red", "x") == "x"


def test_dumb_terminal_has_no_colours(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    assert Paint(Terminal())("red", "x") == "x"
