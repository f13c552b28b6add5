"""A few lines that stay where they are on a terminal, or a line now and then in a log.

No library: three escape sequences are all it takes.
"""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Sequence
from typing import Final, TextIO

WIDTH: Final = 100
"""Columns that every terminal has that is used for this."""
COMMANDS: Final = tuple(f"  {word} " for word in ("curl", "export", "kubectl"))
"""How a line that is meant to be copied begins."""
REFRESH_SECONDS: Final = 0.5
PLAIN_SECONDS: Final = 5.0
_UP: Final = "\x1b[{}A"
_CLEAR_LINE: Final = "\x1b[2K"
_CLEAR_BELOW: Final = "\x1b[J"


class Terminal:
    """Writes to one stream; `is_live` says whether that can be refreshed in place."""

    def __init__(self, stream: TextIO, *, is_live: bool | None = None) -> None:
        self._stream = stream
        self.is_live = stream.isatty() if is_live is None else is_live
        self._shown_lines = 0
        self._next_at = 0.0

    def say(self, *lines: str) -> None:
        """Write lines that stay; a table that is shown stays above them. Long ones are wrapped."""
        self._shown_lines = 0
        self._write("".join(f"{part}\n" for line in lines for part in wrap(line)))

    def is_due(self, now: float) -> bool:
        """Whether it is time to show something again."""
        if now < self._next_at:
            return False
        self._next_at = now + (REFRESH_SECONDS if self.is_live else PLAIN_SECONDS)
        return True

    def show(self, table: Sequence[str], plain: str) -> None:
        """Show the table over the one before it, or write the plain line."""
        if not self.is_live:
            self._write(f"{plain}\n")
            return
        back = _UP.format(self._shown_lines) if self._shown_lines else ""
        lines = "".join(f"{_CLEAR_LINE}{line}\n" for line in table)
        self._write(f"{back}{lines}{_CLEAR_BELOW}")
        self._shown_lines = len(table)

    def _write(self, text: str) -> None:
        # A terminal or a pipe that is not UTF-8 gets question marks, not an error.
        encoding = self._stream.encoding or "utf-8"
        # One that was closed gets nothing: what was started must still be removed in order.
        with contextlib.suppress(OSError):
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
            self._stream.flush()


def wrap(line: str) -> list[str]:
    """Return a line as lines no wider than a terminal, broken between words, indented alike.

    A word that is wider by itself (a path, a URL) stays whole, so that it can be copied. So does a
    command, however long the path in it is.
    """
    if line.startswith(COMMANDS):
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    wrapper = textwrap.TextWrapper(
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapper.wrap(line.lstrip()) or [""]
