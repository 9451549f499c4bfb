"""Draw docs/architecture.svg from docs/architecture.toml.

In:   boxes, frames around them and arrows between them, with their places.
Out:  an SVG that is the same on every machine. ``--check`` compares it with the file instead.
"""

import sys
import tomllib
from collections.abc import Iterator
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "docs" / "architecture.toml"
PICTURE = SOURCE.with_suffix(".svg")

FILLS = {"plain": "#eef3f8", "pure": "#e4f4e4", "rust": "#fbe9d8", "other": "#f0ecf7"}
STYLE = """
  text { font-family: Helvetica, Arial, sans-serif; font-size: 13px; fill: #1c2733; }
  .name { font-weight: bold; font-size: 15px; text-anchor: middle; }
  .note { text-anchor: middle; }
  .label { text-anchor: middle; font-size: 12px; fill: #45566b; }
  .label { stroke: #ffffff; stroke-width: 4px; paint-order: stroke; }
  .frame { fill: none; stroke: #9fb0c3; stroke-dasharray: 5 4; }
  .title { fill: #45566b; }
  .arrow { fill: none; stroke: #45566b; stroke-width: 1.5; marker-end: url(#head); }
"""
HEAD = """
  <marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
    <path d="M0 0 L8 4 L0 8 z" fill="#45566b"/>
  </marker>
"""
Point = tuple[float, float]


def svg(drawing: dict[str, Any]) -> str:
    """Return the whole picture."""
    width, height = drawing["width"], drawing["height"]
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(drawing['title'])}</title>",
        f"<style>{STYLE}</style>",
        f"<defs>{HEAD}</defs>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *(line for frame in drawing["frames"] for line in _frame(frame)),
        *(line for arrow in drawing["arrows"] for line in _arrow(arrow, drawing["boxes"])),
        *(line for box in drawing["boxes"].values() for line in _box(box)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _frame(frame: dict[str, Any]) -> Iterator[str]:
    yield f'<rect class="frame" {_place(frame)} rx="10"/>'
    yield f'<text class="title" x="{frame["x"] + 14}" y="{frame["y"] + 22}">{escape(frame["title"])}</text>'


def _box(box: dict[str, Any]) -> Iterator[str]:
    fill = FILLS[box.get("style", "plain")]
    yield f'<rect {_place(box)} rx="6" fill="{fill}" stroke="#45566b"/>'
    texts = [("name", text) for text in box["text"]] + [("note", text) for text in box.get("notes", [])]
    middle, top = box["x"] + box["w"] / 2, box["y"] + box["h"] / 2 - 9 * (len(texts) - 1) + 5
    for number, (kind, text) in enumerate(texts):
        yield f'<text class="{kind}" x="{middle:g}" y="{top + 18 * number:g}">{escape(text)}</text>'


def _place(box: dict[str, Any]) -> str:
    return f'x="{box["x"]}" y="{box["y"]}" width="{box["w"]}" height="{box["h"]}"'


def _arrow(arrow: dict[str, Any], boxes: dict[str, Any]) -> Iterator[str]:
    """Draw a straight arrow, or one that runs level at the height ``via``."""
    start, end = (_side(boxes, arrow[which]) for which in ("from", "to"))
    points = [start, end]
    if (via := arrow.get("via")) is not None:
        left = arrow.get("x", start[0])
        points = [start, *([(left, start[1])] if left != start[0] else []), (left, via), (end[0], via), end]
    steps = [point for number, point in enumerate(points) if not number or point != points[number - 1]]
    yield f'<path class="arrow" d="M{" L".join(f"{x:g} {y:g}" for x, y in steps)}"/>'
    if label := arrow.get("label"):
        x, y = _middle(steps)
        yield f'<text class="label" x="{arrow.get("at", x):g}" y="{y - 6:g}">{escape(label)}</text>'


def _side(boxes: dict[str, Any], name: str) -> Point:
    box, side = boxes[name.partition(".")[0]], name.partition(".")[2]
    middle = box["x"] + box["w"] / 2, box["y"] + box["h"] / 2
    return {
        "left": (box["x"], middle[1]),
        "right": (box["x"] + box["w"], middle[1]),
        "top": (middle[0], box["y"]),
        "bottom": (middle[0], box["y"] + box["h"]),
    }[side]


def _middle(points: list[Point]) -> Point:
    """Return the middle of the longest level piece of an arrow."""
    pieces = [(abs(b[0] - a[0]), a, b) for a, b in pairwise(points) if a[1] == b[1]]
    _, a, b = max(pieces)
    return (a[0] + b[0]) / 2, a[1]


def main() -> int:
    drawn = svg(tomllib.loads(SOURCE.read_text()))
    if "--check" in sys.argv[1:]:
        is_current = PICTURE.exists() and PICTURE.read_text() == drawn
        print("" if is_current else f"{PICTURE} is stale: run make diagram\n", end="", file=sys.stderr)
        return 0 if is_current else 1
    PICTURE.write_text(drawn)
    return 0


if __name__ == "__main__":
    sys.exit(main())
