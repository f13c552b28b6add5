"""Lines as SVG, which notebooks show and browsers open: no library is needed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import floor, log10
from typing import Final, NamedTuple

Point = tuple[float, float]

WIDTH: Final = 640
HEIGHT: Final = 280
LEFT: Final = 60
RIGHT: Final = 20
TOP: Final = 34
BOTTOM: Final = 44
TICKS: Final = 5
COLORS: Final = ("#1f5fa8", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#0e7490")
"""The colors of the lines, in order; each has a contrast of 4.5 to 1 to white."""
DASHES: Final = ("", "6 3", "2 3", "8 3 2 3", "", "6 3")
"""The dash patterns of the lines, which distinguish them without colors."""


class Plot(NamedTuple):
    """A picture.

    Attributes:
        svg: Its text, an XML element.
    """

    svg: str

    def _repr_svg_(self) -> str:
        """Return what a notebook shows."""
        return self.svg


def line_plot(title: str, lines: Mapping[str, Sequence[Point]], across: str, upwards: str) -> Plot:
    """Return a plot of lines, which begins at zero.

    Args:
        title: Above it.
        lines: Points by the name of the line.
        across: What is counted from left to right, with its unit.
        upwards: What is counted upwards.
    """
    points = [point for line in lines.values() for point in line] or [(0.0, 0.0)]
    right, top = (_round_up(max(each[axis] for each in points)) for axis in (0, 1))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        '<g font-family="sans-serif" font-size="12">',
        f'<text x="{LEFT}" y="18" font-weight="bold">{escape(title)}</text>',
        *_axes(right, top, across, upwards),
    ]
    for place, (name, line) in enumerate(lines.items()):
        style = f'stroke="{COLORS[place % len(COLORS)]}" stroke-width="2"'
        dash = DASHES[place % len(DASHES)]
        style += f' stroke-dasharray="{dash}"' if dash else ""
        path = " ".join(f"{_x(each[0], right)},{_y(each[1], top)}" for each in line)
        parts.append(f'<polyline points="{path}" fill="none" {style}/>')
        y = TOP + 8 + 16 * place
        parts.append(f'<line x1="{LEFT + 12}" x2="{LEFT + 40}" y1="{y}" y2="{y}" {style}/>')
        parts.append(f'<text x="{LEFT + 46}" y="{y + 4}">{escape(name)}</text>')
    return Plot("\n".join([*parts, "</g>", "</svg>"]))


def _axes(right: float, top: float, across: str, upwards: str) -> list[str]:
    parts = []
    for number in range(TICKS + 1):
        x, y = _x(right * number / TICKS, right), _y(top * number / TICKS, top)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{top * number / TICKS:g}</text>'
            f'<text x="{x}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">'
            f"{right * number / TICKS:g}</text>"
        )
    parts.append(
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">{escape(across)}</text>'
    )
    parts.append(f'<text x="{WIDTH - RIGHT}" y="18" text-anchor="end">{escape(upwards)}</text>')
    return parts


def _x(value: float, right: float) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * value / right, 1)


def _y(value: float, top: float) -> float:
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top, 1)


def _round_up(most: float) -> float:
    """Return the end of an axis: 1, 2 or 5 and zeros, at least the highest value."""
    if most <= 0:
        return 1.0
    power = 10.0 ** floor(log10(most))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= most)
