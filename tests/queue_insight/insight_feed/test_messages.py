"""Messages arrive as they were sent, and others are refused."""

from __future__ import annotations

import pytest

from queue_insight.insight_feed.frames import Frame, FrameError, FrameReader, Kind
from queue_insight.insight_feed.messages import (
    Checkpoint,
    Digest,
    State,
    decode_message,
    encode_message,
)
from shared_api.testing.virtual_clock import EPOCH
from tests.queue_insight.insight_kit import HELLO

MESSAGES = [
    HELLO,
    Checkpoint(number=7, wall=EPOCH, engine=b"\0\1"),
    State(number=8, wall=EPOCH, is_leader=True),
    Digest(number=8, digest="abc"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_a_message_arrives_as_it_was_sent(message: object) -> None:
    assert isinstance(message, type(HELLO) | Checkpoint | State | Digest)
    (frame,) = FrameReader().feed(encode_message(message))
    assert decode_message(frame, type(message)) == message  # type: ignore[type-var] # one of them


@pytest.mark.parametrize("content", [b"", b"\xc1", b"\x80"], ids=["empty", "no value", "no field"])
def test_another_form_is_refused(content: bytes) -> None:
    with pytest.raises(FrameError, match="a STATE that cannot be read"):
        decode_message(Frame(Kind.STATE, content), State)
