"""Decodes JSON and YAML that others wrote into objects: annotations, labels, attributes. Pure.

Whoever may write an object writes such texts, so all that can be wrong with one is one error,
`TextError`, which the reader turns into "not set" and says so. msgspec has no bound of depth of its
own: what is nested deeper than the rest of the Python stack raises RecursionError, sooner in a
deeply nested call than in another. So the depth is bounded before anything is decoded, and far
below that: what passes here can also be compared, encoded and shown anywhere.

Answers of the API server are decoded by `client.response_decoding`, manifests by
`manifest_documents`.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec
import yaml

T = TypeVar("T")

MAX_DEPTH: Final = 64
"""Levels of a text: an affinity, the deepest part of a pod template, has a dozen."""

MAX_SHOWN: Final = 200
"""Characters that are quoted of what a decoder says; it may quote the text."""

PARSERS_LIMIT: Final = "exceeded maximum nesting depth"
"""What libyaml says from version 0.2.6 on, of a thousand levels."""

BRACKET: Final = r'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{}]'
"""Matches a bracket, or a whole string, so that brackets in strings do not count. A string without
an end is matched as well: else all that follows it is searched again from each of its quotes."""

_BRACKET: Final = re.compile(BRACKET, re.DOTALL)


class TextError(ValueError):
    """A text cannot be decoded; the message is one short line."""


def decode_json(text: str, wanted: type[T]) -> T:
    """Return the value of a JSON text.

    Raises:
        TextError: It is not JSON, is nested too deep, or is of another type; the message has the
            path.
    """
    check_depth(text)
    try:
        return msgspec.json.decode(text, type=wanted)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise TextError(one_line(error)) from error


def decode_yaml(text: str, wanted: type[T]) -> T:
    """Return the value of a YAML text; its scalars are texts, whatever they look like.

    Aliases are refused: with them a short text stands for a very large one.

    Raises:
        TextError: It is not YAML, is nested too deep, has aliases, or is of another type.
    """
    try:
        _check_events(text)
        # Of all loaders this one alone makes nothing of scalars: every other raises whatever a
        # constructor of dates, numbers and tags raises.
        loaded = yaml.load(text, Loader=yaml.CBaseLoader)  # noqa: S506 - it makes only texts, lists, maps
    except TextError:
        raise
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        # The parser reads ahead: it may find more levels than its own limit first.
        raise _too_deep() if PARSERS_LIMIT in str(error) else TextError(one_line(error)) from error
    return convert_value(loaded, wanted)


def convert_value(value: object, wanted: type[T]) -> T:
    """Return a decoded value as a type, such as a part of an object without a schema.

    Raises:
        TextError: It is of another type, or nested too deep; the message has the path.
    """
    try:
        return msgspec.convert(value, wanted)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise TextError(one_line(error)) from error


def one_line(error: BaseException) -> str:
    """Return what an error says as one short line."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return " ".join(str(error).split())[:MAX_SHOWN] or type(error).__name__


def check_depth(text: str) -> None:
    """Raise TextError if a JSON text is nested more than `MAX_DEPTH` levels deep."""
    # Counting is a hundred times as fast as the search, and nearly always enough.
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for token in _BRACKET.finditer(text):
        if token[0] in {"[", "{"}:
            depth += 1
            if depth > MAX_DEPTH:
                raise _too_deep()
        elif token[0] in {"]", "}"}:
            depth -= 1


def _check_events(text: str) -> None:
    depth = 0
    event: Any
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        match event:
            case yaml.CollectionStartEvent():
                depth += 1
                if depth > MAX_DEPTH:
                    raise _too_deep()
            case yaml.CollectionEndEvent():
                depth -= 1
            case yaml.AliasEvent():
                raise TextError("it has aliases (*name), which are not read")
            case _:
                pass


def _too_deep() -> TextError:
    return TextError(f"it is nested more than {MAX_DEPTH} levels deep")
