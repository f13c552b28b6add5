"""Writes answers: to a terminal with colors and within its width, or to a pipe as plain lines."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TextIO

import click

from koord_queue.show.table import EMPTY, build_table

if TYPE_CHECKING:
    from rich.console import Console

WIDTH: Final = 100
"""Columns where the terminal does not say."""

GAP: Final = 2
"""Columns of a terminal between two of a table."""
LEAST_LAST: Final = 10
"""What the last column of a table keeps of a terminal, however narrow that is."""

COLORS: Final = {"good": "green", "warn": "yellow", "bad": "red", "dim": "bright_black"}
"""The terminal's theme says what they look like. `bold` is a style as well."""
BOLD: Final = "bold"

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """Return a text without control characters: a name or a message must not move the cursor."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else REPLACEMENT for each in text)


class Printer:
    """Output of one command.

    Attributes:
        is_terminal: Whether a person reads it as it comes.
        width: Columns of the terminal; a pipe has no limit, and this is `WIDTH`.

    Args:
        out: For answers.
        err: For notes.
        environment: Whether colors are wanted.
    """

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        *,
        is_terminal: bool,
        width: int = WIDTH,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._out = out
        self._err = err
        self.is_terminal = is_terminal
        self.width = width
        self._has_status = False
        self._has_color = (
            is_terminal and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
        )

    def line(self, text: str = "") -> None:
        """Write a line as it is. What others have written must have gone through `printable`."""
        self._out.write(f"{text}\n")

    def paragraph(self, text: str, indent: str = "") -> None:
        """Write a sentence: wrapped on a terminal, one line in a pipe.

        Args:
            text: Without styles.
            indent: Before each line.
        """
        safe = printable(text)
        if not self.is_terminal:
            self.line(indent + safe)
            return
        for line in textwrap.wrap(
            safe,
            self.width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        ):
            self.line(line)

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        styles: Mapping[str, str] | None = None,
        *,
        has_headings: bool = True,
    ) -> None:
        """Write a table. On a terminal its last column is cut; in a pipe nothing is.

        Args:
            columns: Headings.
            rows: Cells. In a pipe those before the last of a row have hyphens in place of spaces,
                so that every row has as many words.
            styles: The style of a cell by its text, on a terminal.
            has_headings: Whether the headings are written; always on a terminal.
        """
        safe = [[printable(cell) or EMPTY for cell in row] for row in rows]
        if self.is_terminal:
            self._rich_table(columns, safe, styles or {})
            return
        words = [[*("-".join(cell.split()) for cell in row[:-1]), *row[-1:]] for row in safe]
        for line in build_table(columns, words)[0 if has_headings else 1 :]:
            self.line(line)

    def note(self, text: str) -> None:
        """Write a line to the side, where it is no part of the answer."""
        self._out.flush()
        self._err.write(f"note: {printable(text)}\n")

    def style(self, text: str, style: str) -> str:
        """Return a text in a style of `COLORS`, or bold; unchanged where there are no colors."""
        if not (self._has_color and text):
            return text
        return click.style(text, fg=COLORS.get(style), bold=True if style == BOLD else None)

    def status(self, text: str) -> None:
        """Write a line over the last one of these, cut to the terminal: for what goes on."""
        from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 - only for a terminal

        # A line of the whole width would wrap on some terminals.
        fits = cell_len(text) < self.width
        shown = text if fits else f"{set_cell_size(text, self.width - 2)}…"
        self._out.write(f"\r{shown}\x1b[K")
        self._out.flush()
        self._has_status = True

    def end_status(self) -> None:
        """Leave the last of these lines as it is, and go on below it."""
        if self._has_status:
            self.line()
            self._has_status = False

    def clear(self) -> None:
        """Begin at the top of the terminal again."""
        if self.is_terminal:
            self._out.write("\x1b[H\x1b[J")

    def flush(self) -> None:
        """Pass on what was written."""
        self._out.flush()

    # --- the terminal -------------------------------------------------------------------------

    def _rich_table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        styles: Mapping[str, str],
    ) -> None:
        from rich.cells import cell_len  # noqa: PLC0415 - as the next ones
        from rich.table import Table  # noqa: PLC0415 - takes longer to import than a pipe's answer
        from rich.text import Text  # noqa: PLC0415 - the same

        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
        # Only the last column gives way: the others are what a person types next. If too little is
        # left for it, nothing is cut, and the terminal goes on in the next line, as for kubectl.
        widths = [
            max(map(cell_len, (name, *(row[index] for row in rows))))
            for index, name in enumerate(columns)
        ]
        left = self.width - sum(widths[:-1]) - GAP * len(widths[:-1])
        if left >= LEAST_LAST:
            widths[-1] = min(widths[-1], left)
        for name, width in zip(columns, widths, strict=True):
            table.add_column(name, no_wrap=True, width=width, overflow="ellipsis")
        for row in rows:
            table.add_row(*(Text(cell, _rich_style(styles.get(cell, ""))) for cell in row))
        self._console(max(self.width, sum(widths) + GAP * len(widths))).print(table)

    def _console(self, width: int) -> Console:
        from rich.console import Console  # noqa: PLC0415 - as above

        return Console(
            file=self._out,
            width=width,
            force_terminal=True,
            no_color=not self._has_color,
            highlight=False,
            markup=False,
            emoji=False,
        )


def _rich_style(style: str) -> str:
    return COLORS.get(style, style)


def standard_output() -> Printer:
    """Return a printer to standard output. Characters that it cannot encode become "?"."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size((WIDTH, 24)).columns if is_terminal else WIDTH
    return Printer(sys.stdout, sys.stderr, is_terminal=is_terminal, width=width)
