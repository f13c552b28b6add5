"""Bytes of an answer as a value."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from koord_queue.errors import CommandError

AnswerT = TypeVar("AnswerT")


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an API answers, or a part of it."""


def decode(data: bytes, wanted: type[AnswerT]) -> AnswerT:
    """Return an answer as a value.

    Raises:
        CommandError: It is no such answer.
    """
    try:
        return msgspec.json.decode(data, type=wanted)
    except msgspec.DecodeError as error:
        raise CommandError(
            f"the answer cannot be read: {error}",
            "Is the server of another version? `koord-queue version` says which it is.",
        ) from error
