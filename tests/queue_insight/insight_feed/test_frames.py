"""A byte stream is cut into frames, however it arrives; a broken one is noticed early."""

from __future__ import annotations

import pytest

from queue_insight.insight_feed.frames import (
    MAX_BYTES,
    Frame,
    FrameError,
    FrameReader,
    Kind,
    encode_frame,
)

FRAMES = [Frame(Kind.HELLO, b"who"), Frame(Kind.CALL, b""), Frame(Kind.CALL, b"x" * 3000)]
STREAM = b"".join(encode_frame(*frame) for frame in FRAMES)


@pytest.mark.parametrize("size", [1, 4, 5, 6, 1000, len(STREAM)])
def test_frames_are_the_same_in_pieces_of_any_size(size: int) -> None:
    reader = FrameReader()
    pieces = (STREAM[at : at + size] for at in range(0, len(STREAM), size))
    assert [frame for piece in pieces for frame in reader.feed(piece)] == FRAMES


def test_each_kind_has_a_limit() -> None:
    assert MAX_BYTES.keys() == set(Kind)


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        pytest.param(b"\0\0\0\1\x63", "unknown kind 99", id="a kind of another version"),
        pytest.param(b"\xff\xff\xff\xff\1", "HELLO of 4294967295 bytes", id="too long"),
        pytest.param(b"GET / HTTP/1.1\r\n", "unknown kind 47", id="another protocol"),
    ],
)
def test_a_broken_stream_is_noticed_at_the_head_of_a_frame(stream: bytes, error: str) -> None:
    with pytest.raises(FrameError, match=error):
        list(FrameReader().feed(stream))


def test_what_is_too_long_is_not_sent() -> None:
    with pytest.raises(FrameError, match="a STATE of 5000 bytes, at most 4096"):
        encode_frame(Kind.STATE, b"x" * 5000)
