"""What a check has found, as lines. Pure."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from koord_queue.show.printer import printable

if TYPE_CHECKING:
    from koord_queue.show.printer import Printer

STYLES: Final = {"ok": "good", "warning": "warn", "problem": "bad", "unknown": "dim"}
LEVEL_WIDTH: Final = 9
CHECK_WIDTH: Final = 12
LEAST_TEXT: Final = 30
"""Columns that the sentences keep on a narrow terminal."""
_INDENT: Final = " " * (LEVEL_WIDTH + CHECK_WIDTH)


class Shown(Protocol):
    """A finding, as `checks` has it."""

    @property
    def check(self) -> str:
        """Name of the check."""

    @property
    def level(self) -> str:
        """How bad it is."""

    @property
    def text(self) -> str:
        """What was found."""

    @property
    def fix(self) -> str:
        """What to do; "" for nothing."""


def lines_of(findings: Iterable[Shown], out: Printer) -> Iterator[str]:
    """Yield the lines of all findings.

    To a pipe, each is one line: level, check, and the sentence with its fix after an arrow. On a
    terminal sentences are wrapped, and the fix has a line of its own.
    """
    for each in findings:
        text, fix = printable(each.text), printable(each.fix)
        begin = f"{each.level:<{LEVEL_WIDTH}}{each.check:<{CHECK_WIDTH}}"
        if not out.is_terminal:
            yield begin + text + (f" -> {fix}" if fix else "")
            continue
        width = max(out.width - len(begin), LEAST_TEXT)
        # Commands are wrapped at blanks only, so that they can be copied.
        kept = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
        first, *rest = kept.wrap(text) or [""]
        yield out.style(begin[:LEVEL_WIDTH], STYLES[each.level]) + begin[LEVEL_WIDTH:] + first
        yield from (_INDENT + line for line in rest)
        yield from (_INDENT + line for line in kept.wrap(f"-> {fix}" if fix else ""))


def summary_of(findings: Iterable[Shown]) -> str:
    """Return how many findings there are of each level that is not ok."""
    counts = Counter(str(each.level) for each in findings)
    parts = [
        f"{counts[level]} {level if counts[level] == 1 or level == 'unknown' else level + 's'}"
        for level in ("problem", "warning", "unknown")
        if counts[level]
    ]
    return ", ".join(parts) or "nothing is wrong"
