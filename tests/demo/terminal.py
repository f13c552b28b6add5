"""A few lines refreshed in place on a terminal, or periodic lines in a log.

No library is used: three escape sequences are enough.
"""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Sequence
from typing import Final, TextIO

WIDTH: Final = 100
"""The assumed width of terminals, in columns."""
COMMANDS: Final = tuple(f"  {word} " for word in ("curl", "export", "koord-queue", "kubectl"))
"""Prefixes of lines that are meant to be copied."""
REFRESH_SECONDS: Final = 0.5
PLAIN_SECONDS: Final = 5.0
_UP: Final = "\x1b[{}A"
_CLEAR_LINE: Final = "\x1b[2K"
_CLEAR_BELOW: Final = "\x1b[J"


class Terminal:
    """Writes to one stream; `is_live`: whether it can be refreshed in place."""

    def __init__(self, stream: TextIO, *, is_live: bool | None = None) -> None:
        self._stream = stream
        self.is_live = stream.isatty() if is_live is None else is_live
        self._shown_lines = 0
        self._next_at = 0.0

    def say(self, *lines: str) -> None:
        """Write permanent lines, wrapped if long; a shown table stays above them."""
        self._shown_lines = 0
        self._write("".join(f"{part}\n" for line in lines for part in wrap(line)))

    def is_due(self, now: float) -> bool:
        """Return whether the display is due."""
        if now < self._next_at:
            return False
        self._next_at = now + (REFRESH_SECONDS if self.is_live else PLAIN_SECONDS)
        return True

    def show(self, table: Sequence[str], plain: str) -> None:
        """Show the table in place of the previous one, or write the plain line."""
        if not self.is_live:
            self._write(f"{plain}\n")
            return
        back = _UP.format(self._shown_lines) if self._shown_lines else ""
        lines = "".join(f"{_CLEAR_LINE}{line}\n" for line in table)
        self._write(f"{back}{lines}{_CLEAR_BELOW}")
        self._shown_lines = len(table)

    def _write(self, text: str) -> None:
        # A terminal or a pipe without UTF-8 gets question marks, not an error.
        encoding = self._stream.encoding or "utf-8"
        # A closed one gets nothing, since everything must still be removed in order.
        with contextlib.suppress(OSError):
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
            self._stream.flush()


def wrap(line: str) -> list[str]:
    """Return a line as lines that fit the terminal, broken between words, with the same indent.

    What follows the line of a list is indented below its text.

    A longer word (a path, a URL) and a command stay whole, so that they can be copied.
    """
    if line.startswith(COMMANDS):
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    hanging = indent + "  " if line.lstrip().startswith("- ") else indent
    wrapper = textwrap.TextWrapper(
        WIDTH,
        initial_indent=indent,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapper.wrap(line.lstrip()) or [""]
