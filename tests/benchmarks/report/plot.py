"""How figures are to their aims, as SVG: the same bytes for the same figures.

Written here, since a plotting library's output changes with its version and its fonts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log10
from typing import Final
from xml.sax.saxutils import escape

from tests.benchmarks.report.aims import AIMS
from tests.benchmarks.report.results import Run, find_figure

ROW: Final = 22
TEXT: Final = 330
WIDTH: Final = 900
MARGIN: Final = 40
LEAST, MOST = 0.01, 10.0
TICKS: Final = (0.01, 0.1, 1.0, 10.0)
GOOD, BAD = "#2f6f4f", "#b3452c"

SVG: Final = "http://www.w3.org/2000/svg"
STYLE: Final = 'role="img" font-family="sans-serif" font-size="12" fill="#333333"'

Bar = tuple[str, float]


def bars_of(runs: dict[str, Run]) -> list[Bar]:
    """Return the figures that have an aim in numbers: the share of it that they take."""
    found = []
    for name, aim in AIMS.items():
        if any(name in run.figures for run in runs.values()):
            share = aim.share(find_figure(runs, name)[1])
            if share is not None:
                found.append((name, share))
    return found


def draw(bars: Sequence[Bar]) -> str:
    """Return a picture: a bar for each figure, on a logarithmic scale; 1 is the aim."""
    height = MARGIN + ROW * len(bars) + MARGIN
    lines = [
        f'<svg xmlns="{SVG}" viewBox="0 0 {WIDTH} {height}" {STYLE}>',
        "<title>Figures as a share of their aims; left of 1 is better</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        *_scale(height),
        *(line for at, bar in enumerate(bars) for line in _bar(at, *bar)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _scale(height: int) -> Iterator[str]:
    for tick in TICKS:
        x, color = _x(tick), "#333333" if tick == 1 else "#cccccc"
        yield f'<line x1="{x}" x2="{x}" y1="{MARGIN}" y2="{height - MARGIN}" stroke="{color}"/>'
        text = "aim" if tick == 1 else f"{tick:g}"
        yield f'<text x="{x}" y="{MARGIN - 8}" text-anchor="middle">{text}</text>'
    text = "share of the aim that is used; above 1 it is missed"
    yield f'<text x="{_x(1)}" y="{height - 14}" text-anchor="middle">{text}</text>'


def _bar(at: int, name: str, share: float) -> Iterator[str]:
    y = MARGIN + ROW * at
    end, color = _x(share), BAD if share > 1 else GOOD
    yield f'<text x="{TEXT - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>'
    width = round(end - _x(LEAST), 1)
    yield f'<rect x="{_x(LEAST)}" y="{y + 4}" width="{width}" height="{ROW - 8}" fill="{color}"/>'
    yield f'<text x="{end + 5}" y="{y + 15}">{share:.2f}</text>'


def _x(share: float) -> float:
    """Return where a share is, in pixels; what is outside of the scale is at its end."""
    inside = min(max(share, LEAST), MOST)
    part = log10(inside / LEAST) / log10(MOST / LEAST)
    return round(TEXT + part * (WIDTH - MARGIN - TEXT - 30), 1)
