"""Messages that the troubleshooting guide quotes are messages of the code."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "guides" / "troubleshooting.md"
SOURCES = [*(ROOT / "src" / "varnish_gateway").rglob("*.py"), *(ROOT / "ghost").glob("*/src/**/*.rs")]
CODE = "\n".join(path.read_text() for path in SOURCES)
VARNISHD = {"Cache-Control: no-store", "Guru Meditation", "Server: Varnish", "VCL failed"}
"""What varnishd says itself, and a header."""


def quotes() -> list[str]:
    """Return the messages in the first two cells of tables, without what stands for names."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    first, second = zip(*(line.strip("| ").split(" | ")[:2] for line in lines), strict=True)
    last_of_three = {line.strip("| ").split(" | ")[-1] for line in lines}
    cells = [*first, *(cell for cell in second if cell not in last_of_three)]
    spans = {span for cell in cells for span in re.findall(r"`([^`]+ [^`]+)`", cell)} - VARNISHD
    parts = {part.strip(" ;:,") for span in spans for part in re.split(r"…|: HTTPRoute", span)}
    return sorted(part for part in parts if " " in part)


@pytest.mark.parametrize("quote", quotes())
def test_quoted_message_is_in_the_code(quote):
    assert quote in CODE


def test_guide_quotes_messages():
    assert len(quotes()) > 15
