"""Bars of text: how much of a limit is used. Pure.

A bar says with characters, not with color, what is used, so that it is read without either.
"""

from __future__ import annotations

from typing import Final, NamedTuple

LEAST: Final = 8
"""Characters of the narrowest bar that still tells a quarter from a third."""
MOST: Final = 30
"""A wider bar says nothing more."""


class Letters(NamedTuple):
    """What bars and trees are drawn with."""

    used: str
    free: str
    branch: str
    last: str
    trunk: str
    blank: str


BLOCKS: Final = Letters("\u2588", "\u2591", "\u251c\u2500 ", "\u2514\u2500 ", "\u2502  ", "   ")
ASCII: Final = Letters("#", ".", "|- ", "`- ", "|  ", "   ")


def letters_for(encoding: str | None) -> Letters:
    """Return blocks where an encoding has them, else ASCII; None if it is not known."""
    try:
        "".join(BLOCKS).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BLOCKS


def bar(share: float, width: int, letters: Letters) -> str:
    """Return a bar.

    Args:
        share: The share of the limit that is used; above 1 it is full.
        width: In characters.
        letters: What it is drawn with.
    """
    used = round(min(max(share, 0.0), 1.0) * width)
    # Something and nothing, and all and almost all, look different.
    if used == 0 and share > 0:
        used = 1
    if used == width and share < 1:
        used = width - 1
    return letters.used * used + letters.free * (width - used)


def bar_width(left: int) -> int:
    """Return the width of bars where so many columns are left; 0: there is no room for bars."""
    return 0 if left < LEAST else min(left, MOST)


def percent(share: float) -> str:
    """Return a share as whole percents; as with bars, only nothing is 0 % and only all is 100 %."""
    whole = round(share * 100)
    if whole == 0 and share > 0:
        whole = 1
    if whole == 100 and share < 1:  # noqa: PLR2004 - of a percentage
        whole = 99
    return f"{whole}%"


def branches(depths: list[int], letters: Letters) -> list[str]:
    """Return what stands before each name of a tree that is written from top to bottom.

    Args:
        depths: Of each node, in the order in which they are written; 0 is a root.
        letters: What they are drawn with.
    """
    drawn = []
    for index, depth in enumerate(depths):
        parts = [
            letters.trunk if _goes_on(depths, index, level) else letters.blank
            for level in range(1, depth)
        ]
        if depth:
            parts.append(letters.branch if _goes_on(depths, index, depth) else letters.last)
        drawn.append("".join(parts))
    return drawn


def _goes_on(depths: list[int], index: int, level: int) -> bool:
    """Return whether a sibling of the node's ancestor at this level comes below."""
    for depth in depths[index + 1 :]:
        if depth <= level:
            return depth == level
    return False
