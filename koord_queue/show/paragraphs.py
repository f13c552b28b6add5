"""Sentences and lists as lines: wrapped to a terminal, one line each in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from koord_queue.show.printer import Printer, printable
from koord_queue.show.table import build_table

LEAST_WIDTH: Final = 40
"""Columns that a text gets, however narrow the terminal is."""


class Line(NamedTuple):
    """A text of one line, as long as it is.

    Attributes:
        text: What it says.
        style: A style of `Printer.style`; "": none.
        indent: Columns before it.
        hang: Further columns before the lines that it is continued on.
        to_copy: Whether it is a command: it is not wrapped.
    """

    text: str
    style: str = ""
    indent: int = 0
    hang: int = 0
    to_copy: bool = False


BLANK: Final = Line("")


def heading(text: str) -> Iterator[Line]:
    """Yield a heading, after an empty line."""
    yield BLANK
    yield Line(f"{text}:", "bold")


def numbered(number: int, text: str, style: str = "") -> Line:
    """Return an entry of a list."""
    mark = f"{number}. "
    return Line(mark + text, style, indent=2, hang=len(mark))


def below(text: str, *, to_copy: bool = False) -> Line:
    """Return a line below an entry of a list."""
    return Line(text, indent=5, to_copy=to_copy)


def rows_as_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[Line]:
    """Yield a table whose last column is wrapped on a terminal, below its start, and never cut."""
    head, *lines = build_table(columns, rows)
    hang = head.rindex(columns[-1])
    yield Line(head, "bold")
    yield from (Line(line, hang=hang) for line in lines)


def write_lines(out: Printer, lines: Iterable[Line]) -> None:
    """Write lines; on a terminal they are wrapped to its width."""
    for line in lines:
        for text in _rows(line, out.width if out.is_terminal else None):
            out.line(out.style(text, line.style) if line.style else text)


def _rows(line: Line, width: int | None) -> Iterator[str]:
    text = printable(line.text)
    start = " " * line.indent
    if width is None or line.to_copy:
        yield f"{start}{text}".rstrip()
        return
    room = max(width - line.indent - line.hang, LEAST_WIDTH)
    for number, row in enumerate(wrap(text, room, room + line.hang)):
        yield f"{start}{' ' * line.hang if number else ''}{row}".rstrip()


def wrap(text: str, width: int, first: int | None = None) -> Iterator[str]:
    """Yield a text as rows of whole words.

    Args:
        text: The text; a word that is longer than a row is not cut.
        width: Columns of a row; wide characters take two.
        first: Columns of the first one, if it has others.
    """
    from rich.cells import cell_len  # noqa: PLC0415 - for terminals only

    room, row = first or width, ""
    for word in text.split(" "):
        longer = f"{row} {word}" if row else word
        if row and cell_len(longer) > room:
            yield row
            room, row = width, word
        else:
            row = longer
    yield row
