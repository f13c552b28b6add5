"""What several answers of the API server have in common, and how their texts are shown."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from shared_api.client.errors import MalformedAnswer

T = TypeVar("T")

MAX_OBJECTS: Final = 100_000
"""Objects in an answer: a page of 50 pods has some 20,000 with their managed fields, while four MiB
of empty objects take two GB once they are decoded."""
MAX_TEXT: Final = 1024
"""Characters of a text that are shown: as long as the message of an event may be."""


class Wire(msgspec.Struct, rename="camel"):
    """Base of what is read of answers."""


class Meta(Wire):
    """`metadata` of an object."""

    name: str = ""
    creation_timestamp: str | None = None


class ListMeta(Wire, rename={"more": "continue"}):
    """`metadata` of a list; `more` is "" if nothing is left."""

    more: str = ""


def decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Return an answer.

    Raises:
        MalformedAnswer: It is not what was asked for.
    """
    if body.count(b"{") > MAX_OBJECTS:
        raise MalformedAnswer(f"an answer has more than {MAX_OBJECTS} objects")
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise MalformedAnswer(f"an answer cannot be read: {error}") from error


def shorten(text: str) -> str:
    """Return a text with `MAX_TEXT` characters at most."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
