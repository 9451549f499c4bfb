"""Draw a terminal session as an animated SVG.

In:   the lines of a session: commands that are typed, and output that appears at once.
Out:  one SVG document. Its animation is plain CSS, so it runs inside an ``<img>``; viewers that
      prefer reduced motion see the whole session at once.
Pure: the same session gives the same bytes.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

PROMPT = "$ "
COLUMNS = 88
LINE_HEIGHT = 20
CHARACTER_WIDTH = 8.4
PADDING = 20
TITLE_BAR = 34
SECONDS_PER_CHARACTER = 0.035
SECONDS_BEFORE_OUTPUT = 0.25
SECONDS_AFTER_OUTPUT = 1.4
SECONDS_AT_THE_END = 5.0

STYLE = """
.window{fill:#0d1117}.bar{fill:#161b22}.dot{fill:#30363d}
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#c9d1d9;white-space:pre}
.title{fill:#8b949e}.command{fill:#e6edf3;font-weight:600}.comment{fill:#7ee787}
.line{opacity:0;animation-duration:TOTALs;animation-iteration-count:infinite;animation-timing-function:step-end}
@media (prefers-reduced-motion:reduce){.line{animation:none!important;opacity:1}.typing{display:none}}
"""


class Command(NamedTuple):
    """A command as the user types it, and what it prints."""

    typed: str
    output: tuple[str, ...]


class Frame(NamedTuple):
    """One line of the picture: from ``start`` on it is visible, until ``end`` where a longer one replaces it."""

    row: int
    text: str
    css: str
    start: float
    end: float | None = None


def render(commands: Sequence[Command], *, title: str) -> str:
    """Return the SVG document of a session."""
    frames = list(_frames(commands))
    rows = 1 + max(frame.row for frame in frames)
    total = max(frame.start for frame in frames) + SECONDS_AT_THE_END
    width = round(2 * PADDING + COLUMNS * CHARACTER_WIDTH)
    height = TITLE_BAR + 2 * PADDING + rows * LINE_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE.replace('TOTAL', f'{total:.2f}')}{_keyframes(frames, total)}</style>",
        f'<rect class="window" width="{width}" height="{height}" rx="8"/>',
        f'<rect class="bar" width="{width}" height="{TITLE_BAR}" rx="8"/>',
        *(f'<circle class="dot" cx="{x}" cy="{TITLE_BAR // 2}" r="6"/>' for x in (22, 42, 62)),
        f'<text class="title" x="84" y="{TITLE_BAR // 2 + 5}">{escape(title)}</text>',
        *(_text(number, frame) for number, frame in enumerate(frames)),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _frames(commands: Sequence[Command]) -> Iterator[Frame]:
    row, now = 0, 0.5
    for command in commands:
        text = PROMPT + command.typed
        for typed in range(len(PROMPT), len(text)):
            yield Frame(row, text[:typed], "command", now, now + SECONDS_PER_CHARACTER)
            now += SECONDS_PER_CHARACTER
        yield Frame(row, text, "command", now)
        now += SECONDS_BEFORE_OUTPUT
        for row_of_output, line in enumerate(command.output, start=row + 1):
            yield Frame(row_of_output, line, "comment" if line.startswith("#") else "output", now)
        row += 1 + len(command.output)
        now += SECONDS_AFTER_OUTPUT


def _keyframes(frames: Sequence[Frame], total: float) -> str:
    return "".join(_keyframe(number, frame, total) for number, frame in enumerate(frames))


def _keyframe(number: int, frame: Frame, total: float) -> str:
    start = f"{100 * frame.start / total:.3f}%{{opacity:1}}"
    end = "" if frame.end is None else f"{100 * frame.end / total:.3f}%{{opacity:0}}"
    return f"@keyframes f{number}{{0%{{opacity:0}}{start}{end}}}#f{number}{{animation-name:f{number}}}"


def _text(number: int, frame: Frame) -> str:
    y = TITLE_BAR + PADDING + frame.row * LINE_HEIGHT + 14
    # A half-typed command is hidden where there is no animation: only the whole one is shown.
    css = frame.css if frame.end is None else f"{frame.css} typing"
    return f'<text id="f{number}" class="line {css}" x="{PADDING}" y="{y}">{escape(frame.text)}</text>'
