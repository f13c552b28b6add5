"""What a feed sends in its frames, apart from the calls themselves."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from queue_insight.insight_feed.frames import Frame, FrameError, Kind, encode_frame

FEED_SOCKET: Final = "feed.sock"
"""Name of the socket for the feed, in the folder that both programs share."""
ANSWERS_SOCKET: Final = "answers.sock"
"""Name of the socket for questions."""

OTHER_STATE: Final = "another state was found"
"""Sent back before the connection is closed, when digests differ."""

PROTOCOL: Final = 7
"""Raised with every change of what is sent: a checkpoint has the classes of one version."""


def describe_interpreter() -> str:
    """Return what must be the same at both ends, apart from the version."""
    return f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The sender of messages.

    Attributes:
        protocol: `PROTOCOL` of the sender.
        version: Version of its program.
        interpreter: See `describe_interpreter`.
        identity: Name of the replica.
        queue_namespace: The namespace of the queues.
    """

    protocol: int
    version: str
    interpreter: str
    identity: str
    queue_namespace: str


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A whole engine.

    Attributes:
        number: Number of the last call that it has seen.
        wall: When it was copied.
        engine: What `record.checkpoint.freeze` made of it.
    """

    number: int
    wall: datetime
    engine: bytes


class State(msgspec.Struct, frozen=True, kw_only=True):
    """How far the feed is.

    Attributes:
        number: Number of the last call before this message.
        wall: Everything that the engine was told until then has been sent.
        is_leader: Whether the replica decides.
    """

    number: int
    wall: datetime
    is_leader: bool


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """What the sender's engine is after a call.

    Attributes:
        number: Number of the last call before this message.
        digest: `record.digest.digest` of the engine after it.
    """

    number: int
    digest: str


Message = Hello | Checkpoint | State | Digest
MessageT = TypeVar("MessageT", Hello, Checkpoint, State, Digest)

_KINDS: Final[dict[type[Message], Kind]] = {
    Hello: Kind.HELLO,
    Checkpoint: Kind.CHECKPOINT,
    State: Kind.STATE,
    Digest: Kind.DIGEST,
}
_encoder: Final = msgspec.msgpack.Encoder()


def encode_message(message: Message) -> bytes:
    """Return a message as the bytes of its frame.

    Raises:
        FrameError: It is too long.
    """
    return encode_frame(_KINDS[type(message)], _encoder.encode(message))


def decode_message(frame: Frame, kind: type[MessageT]) -> MessageT:
    """Return the message of a frame.

    Raises:
        FrameError: It has another form.
    """
    try:
        return msgspec.msgpack.decode(frame.content, type=kind)
    except msgspec.DecodeError as error:
        raise FrameError(f"a {frame.kind.name} that cannot be read: {error}") from error
