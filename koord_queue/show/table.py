"""Columns as plain lines, for pipes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

GAP: Final = "   "
"""Between columns, as kubectl has it."""
EMPTY: Final = "-"
"""An empty cell: awk would take the next column for it."""


def build_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table as lines: columns are aligned and three spaces apart, nothing is cut.

    Args:
        columns: Headings.
        rows: A cell for each column. Cells but those of the last column should have no spaces.
    """
    shown = [[cell or EMPTY for cell in row] for row in (columns, *rows)]
    widths = [max(map(len, cells)) for cells in zip_longest(*shown, fillvalue="")]
    return [
        GAP.join(cell.ljust(wide) for cell, wide in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]
