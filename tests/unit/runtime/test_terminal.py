"""Colours only where somebody sees them."""

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


def test_a_terminal_gets_colours():
    assert Paint(Terminal())("red", "x") == "\x1b[31mx\x1b[0m"


def test_a_file_does_not():
    assert Paint(io.StringIO())("red", "x") == "x"


def test_no_color_is_respected(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert Paint(Terminal())("red", "x") == "x"


def test_a_dumb_terminal_gets_none(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    assert Paint(Terminal())("red", "x") == "x"
