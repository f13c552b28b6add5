"""The record on disk: one file that grows, in a folder.

A line is written whole and at once. A line that a crash has cut off is left out by readers, and
ended by the next writer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from queue_insight.shadow.lines import FORMAT, Header, Line, decode_line, encode_line

FILE: Final = "shadow.jsonl"


class RecordError(ValueError):
    """A record cannot be read; the text names the file and the line."""


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a record.

    Args:
        path: The folder, or the file itself.

    Raises:
        RecordError: It cannot be read, is of another version, or has a line that is none.
    """
    file = path / FILE if path.is_dir() else path
    try:
        with file.open("rb") as lines:
            for number, text in enumerate(lines, 1):
                if not text.endswith(b"\n"):
                    return  # cut off by a crash, or still being written
                if text.strip():
                    yield _read(f"{file}, line {number}", text)
    except OSError as error:
        raise RecordError(f"{error.filename}: {error.strerror}") from error


def _read(place: str, text: bytes) -> Line:
    try:
        line = decode_line(text)
    except msgspec.DecodeError as error:
        raise RecordError(f"{place}: {error}") from error
    if isinstance(line, Header) and line.format != FORMAT:
        msg = f"{place}: it has version {line.format} of the record, and {FORMAT} can be read"
        raise RecordError(msg)
    return line


class RecordFile:
    """The record as it is written, by one thread.

    Args:
        folder: Where it is.
        most_bytes: When it is larger nothing more is written: what comes later would be worth
            nothing without what came before.

    Raises:
        OSError: It cannot be written.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self._most_bytes = most_bytes
        self._end_cut_line()
        self._file = self.path.open("ab")
        self.size = self.path.stat().st_size

    @property
    def is_full(self) -> bool:
        """Whether nothing more is written."""
        return self.size >= self._most_bytes

    def write(self, line: Line) -> None:
        """Append a line, unless the file is full.

        Raises:
            OSError: It cannot be written.
        """
        if not self.is_full:
            self.size += self._file.write(encode_line(line))

    def flush(self) -> None:
        """Flush what was written, so that readers see it.

        Raises:
            OSError: It cannot be written.
        """
        self._file.flush()

    def close(self) -> None:
        """Write the rest to the disk, and close it.

        Raises:
            OSError: It cannot be written.
        """
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def _end_cut_line(self) -> None:
        """Take off a line that a crash has cut off."""
        if not self.path.exists():
            return
        with self.path.open("r+b") as file:
            content = file.read()
            if content and not content.endswith(b"\n"):
                file.truncate(content.rfind(b"\n") + 1)
