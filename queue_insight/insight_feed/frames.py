"""The byte stream of a feed, cut into frames: kind, length, content.

A frame is five bytes (the length of its content as a big-endian number of four bytes, then the
kind) and the content. Each kind has a greatest length, so that a broken stream is noticed before it
takes memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from queue_insight.record.checkpoint import MAX_BYTES as MAX_ENGINE_BYTES

_HEADER: Final = struct.Struct(">IB")

MEBIBYTE: Final = 1_048_576


class Kind(IntEnum):
    """What a frame holds; the numbers are the protocol's."""

    HELLO = 1
    """`messages.Hello`: always the first."""
    CHECKPOINT = 2
    """`messages.Checkpoint`: a whole engine; replaces what was told before."""
    CALL = 3
    """One encoded call of the engine; they come in order and without gaps."""
    STATE = 4
    """`messages.State`: the time up to which all calls are sent."""
    DIGEST = 5
    """`messages.Digest`: what the engine's digest is after the last call that was sent."""


MAX_BYTES: Final[dict[Kind, int]] = {
    Kind.HELLO: 65_536,
    # Besides the engine there are a number and a time.
    Kind.CHECKPOINT: MAX_ENGINE_BYTES + 4096,
    # An object of the API server has at most 1.5 MiB as etcd stores it.
    Kind.CALL: 16 * MEBIBYTE,
    Kind.STATE: 4096,
    Kind.DIGEST: 4096,
}


class FrameError(ValueError):
    """The stream is broken, or comes from another version; the message says how."""


class Frame(NamedTuple):
    """One frame."""

    kind: Kind
    content: bytes


def encode_frame(kind: Kind, content: bytes) -> bytes:
    """Return the bytes of a frame.

    Raises:
        FrameError: The content is too long for its kind.
    """
    _check(kind, len(content))
    return _HEADER.pack(len(content), kind) + content


class FrameReader:
    """Assembles frames from pieces of the stream."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, piece: bytes) -> Iterator[Frame]:
        """Yield the frames that a piece completes.

        Raises:
            FrameError: The stream is broken; nothing more can be read from it.
        """
        self._received += piece
        start = 0
        try:
            while len(self._received) - start >= _HEADER.size:
                length, number = _HEADER.unpack_from(self._received, start)
                kind = _kind(number)
                _check(kind, length)
                begin = start + _HEADER.size
                if len(self._received) - begin < length:
                    return
                start = begin + length
                yield Frame(kind, bytes(memoryview(self._received)[begin:start]))
        finally:
            del self._received[:start]


def _kind(number: int) -> Kind:
    try:
        return Kind(number)
    except ValueError as error:
        raise FrameError(f"a frame of the unknown kind {number}") from error


def _check(kind: Kind, length: int) -> None:
    if length > MAX_BYTES[kind]:
        raise FrameError(f"a {kind.name} of {length} bytes, at most {MAX_BYTES[kind]} are read")
