"""Opens a trace, plain or compressed with gzip, and finds its format."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import Final, Protocol, TextIO

from queue_insight.replay.csv_traces import NORMALIZED, OPENB, OWN, CsvForm
from queue_insight.replay.jobs import Trace, TraceError
from queue_insight.replay.philly_trace import PhillyTrace
from queue_insight.replay.swf_trace import SwfTrace


class TraceReader(Protocol):
    """Reads one format."""

    @property
    def name(self) -> str:
        """The format's name on the command line."""

    def read(self, path: str, lines: TextIO) -> Trace:
        """Read a trace.

        Raises:
            TraceError: It is wrong; the text has the file and the line.
        """


_TABLES: Final[tuple[CsvForm, ...]] = (OWN, NORMALIZED, OPENB)
READERS: Final[tuple[TraceReader, ...]] = (OWN, NORMALIZED, SwfTrace(), PhillyTrace(), OPENB)

FORMATS: Final = tuple(reader.name for reader in READERS)


def read_trace(path: Path, form: str = "") -> tuple[str, Trace]:
    """Return the format and the content of a trace.

    Args:
        path: The file; `.gz` is decompressed.
        form: Its format; "": found by its name and header line.

    Raises:
        TraceError: It cannot be read, its format is not known, it is wrong, or it has no job.
    """
    text = _decode(path, read_bytes(path))
    reader = _find_reader(path, text, form)
    trace = reader.read(str(path), io.StringIO(text, newline=""))
    if not trace.jobs:
        raise TraceError(f"{path}: it has no job{_describe_skipped(trace)}")
    return reader.name, trace


def read_bytes(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        TraceError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from error


def _decode(path: Path, data: bytes) -> str:
    try:
        plain = gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{path}: it is not a whole gzip file: {error}") from error
    try:
        return plain.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = plain[: error.start].count(b"\n") + 1
        raise TraceError(f"{path}, line {line}: it is not UTF-8 text") from error


def _describe_skipped(trace: Trace) -> str:
    counts = ", ".join(f"{count} where {why}" for why, count in trace.skipped.items())
    return f"; rows that are none: {counts}" if counts else ""


def _find_reader(path: Path, text: str, form: str) -> TraceReader:
    named = next((reader for reader in READERS if reader.name == form), None)
    if named is not None:
        return named
    if form:
        raise TraceError(f"--format {form}: there are {', '.join(FORMATS)}")
    if not text.strip():
        raise TraceError(f"{path}: it is empty")
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    by_suffix: dict[str, TraceReader] = {".swf": SwfTrace(), ".json": PhillyTrace()}
    if suffixes and suffixes[-1] in by_suffix:
        return by_suffix[suffixes[-1]]
    columns = {name.strip() for name in text.split("\n", 1)[0].split(",")}
    for reader in _TABLES:
        if reader.mark in columns:
            return reader
    heads = " or ".join(reader.mark for reader in _TABLES)
    msg = f"{path}, line 1: the format is not known: no column {heads}; name it with --format"
    raise TraceError(f"{msg} ({', '.join(FORMATS)})")
