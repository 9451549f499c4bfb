"""The terminal recording is drawn from what a session printed."""

import importlib.util
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SVG = "{http://www.w3.org/2000/svg}"

_spec = importlib.util.spec_from_file_location("terminal_svg", ROOT / "tools" / "recording" / "terminal_svg.py")
terminal_svg = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(terminal_svg)

SESSION = [
    terminal_svg.Command("curl <here>", ("tea & cake",)),
    terminal_svg.Command("true", ("# 5 ms later:",)),
]


@pytest.fixture
def lines():
    document = ET.fromstring(terminal_svg.render(SESSION, title="a session"))
    return [
        (line.get("class"), line.text, int(line.get("y"))) for line in document.iter(f"{SVG}text") if line.get("id")
    ]


def test_commands_and_output_appear_in_order_below_each_other(lines):
    whole = [(text, y) for css, text, y in lines if "typing" not in css]
    assert [text for text, _ in whole] == ["$ curl <here>", "tea & cake", "$ true", "# 5 ms later:"]
    assert [y for _, y in whole] == sorted({y for _, y in whole})


def test_command_is_typed_character_by_character_on_its_own_row(lines):
    typed = [(text, y) for css, text, y in lines if text.startswith("$ c") and "typing" in css]
    assert [text for text, _ in typed] == ["$ curl <here>"[:n] for n in range(3, len("$ curl <here>"))]
    assert len({y for _, y in typed}) == 1


def test_same_session_gives_the_same_picture():
    assert terminal_svg.render(SESSION, title="t") == terminal_svg.render(SESSION, title="t")
