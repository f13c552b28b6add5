"""A dump as bytes: JSON, compressed with gzip if asked for. Pure.

A stranger's file may be anything. It is decoded into fixed types with bounded memory, and nothing
in it names code.
"""

from __future__ import annotations

import gzip
import zlib
from typing import Final

import msgspec

from queue_insight.dump.contents import FORMAT, KIND, Dump, Part

MAX_BYTES: Final = 1 << 29
"""The largest dump, decompressed: ten times that of 100,000 units."""

LEVEL: Final = 6
"""gzip's own default: a tenth of the size."""

_GZIP: Final = b"\x1f\x8b"
_encoder: Final = msgspec.json.Encoder()


class DumpError(ValueError):
    """A file is no dump that can be read; the message is one sentence."""


class _Head(Part, frozen=True):
    kind: str = ""
    format: int = 0
    version: str = ""


def encode_dump(dump: Dump, *, compress: bool = False) -> bytes:
    """Return a dump as bytes."""
    data = _encoder.encode(dump)
    return gzip.compress(data, LEVEL, mtime=0) if compress else data


def decode_dump(data: bytes, own_version: str) -> Dump:
    """Return the dump of these bytes.

    Args:
        data: JSON, or the same compressed.
        own_version: The version of this program, for errors.

    Raises:
        DumpError: They are no dump, or one of a newer program.
    """
    text = _decompress(data) if data.startswith(_GZIP) else data
    try:
        head = msgspec.json.decode(text, type=_Head)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise DumpError(f"it is no dump: {_first_line(error)}") from error
    if head.kind != KIND:
        raise DumpError(f"it is no dump: its kind is {head.kind[:64]!r}, want {KIND}")
    if head.format > FORMAT:
        by, own = head.version[:64], own_version
        raise DumpError(f"koord-queue {by} has made it, which is newer than {own}: update this one")
    try:
        return msgspec.json.decode(text, type=Dump)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        message = f"the dump cannot be read: {_first_line(error)}"
        raise DumpError(f"{message} (made by koord-queue {head.version[:64]})") from error


def _decompress(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(data, MAX_BYTES + 1)
    except zlib.error as error:
        raise DumpError(f"it cannot be decompressed: {error}") from error
    if len(text) > MAX_BYTES:
        raise DumpError(f"it is too large: more than {MAX_BYTES >> 20} MiB when decompressed")
    if not unpacker.eof:
        raise DumpError("it cannot be decompressed: its end is missing")
    return text


def _first_line(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
