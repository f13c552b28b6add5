"""Decodes the API server's answers: bytes -> objects, pages, events.

An object that does not fit its struct is an error only of a call about this one object. In a list
or watch it becomes a `DecodeFailure` beside the decoded objects.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from shared_api.client.errors import DecodeFailure, MalformedAnswer, UndecodableObject
from shared_api.client.transport import ResponseStream
from shared_api.objects.meta import Uid
from shared_api.text_decoding import BRACKET, TextError, one_line

T = TypeVar("T")
ReadT = TypeVar("ReadT")

MAX_DEPTH: Final = 200
"""Levels that are read of an answer that is nested too deeply for the decoder, which fails near
Python's recursion limit (1000, less the callers' frames). The structs have fewer than twenty."""

_BRACKET: Final = re.compile(BRACKET.encode(), re.DOTALL)
_OPENING: Final = (b"[", b"{")
_CLOSING: Final = (b"]", b"}")

WatchEventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list, in the server's order."""

    items: tuple[T | DecodeFailure, ...]
    resource_version: str
    continue_token: str = ""
    """Token to request the next page with; "" on the last page."""


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One event of a watch."""

    type: WatchEventType
    object: T | None = None
    """The object after the change, or before a deletion. None in BOOKMARK and ERROR, and if it
    could not be decoded."""
    resource_version: str = ""
    """The version from which a watch may resume; "" in ERROR."""
    status: tuple[int, str, str] | None = None
    """Code, reason and message of an ERROR."""
    undecodable: DecodeFailure | None = None


class WatchStream(Generic[T]):
    """An open watch, read by one thread."""

    def __init__(self, stream: ResponseStream, reader: AnswerReader[T]) -> None:
        self._stream = stream
        self._reader = reader

    def next_event(self, idle_seconds: float) -> WatchEvent[T] | None:
        """Return the next event, or None at the orderly end of the watch.

        Args:
            idle_seconds: Longest wait; 0 returns only what has already arrived.

        Raises:
            StreamIdle: Nothing arrived in that time; the watch continues.
            ConnectionLost: The watch broke, or was closed.
            MalformedAnswer: A line is not an event.
        """
        line = self._stream.read_line(idle_seconds)
        return None if line is None else self._reader.read_event(line)

    def close(self) -> None:
        """End the watch; a blocked reader returns. Idempotent; callable from any thread."""
        self._stream.close()


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _ListOf(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None = None


class _EventLine(msgspec.Struct):
    type: WatchEventType
    object: msgspec.Raw


class _ChangeLine(msgspec.Struct, Generic[T]):
    """Nearly every line of a watch: a change of an object that can be decoded."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: T


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""


class _Identity(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Identified(msgspec.Struct):
    metadata: _Identity


_event_line: Final = msgspec.json.Decoder(_EventLine)
_raw_list: Final = msgspec.json.Decoder(_ListOf[msgspec.Raw])
_status: Final = msgspec.json.Decoder(_Status)
_identified: Final = msgspec.json.Decoder(_Identified)

# msgspec reads the fields of a struct when the first decoder needs them, in steps between which
# Python may switch threads. A second decoder of the same struct, or of one inside it, then finds it
# half initialized, and the process crashes (seen with msgspec 0.22: segmentation fault). The lock
# guards the construction of decoders: those of all API objects are made here, one after the other.
_building: Final = threading.Lock()


class AnswerReader(Generic[T]):
    """Decodes answers about one type of object. Used from many threads."""

    def __init__(
        self, object_type: type[T], salvage: Callable[[Any, str], T] | None = None
    ) -> None:
        self._salvage = salvage
        with _building:
            self._object = msgspec.json.Decoder(object_type)
            self._list = msgspec.json.Decoder(_ListOf[object_type])  # type: ignore[valid-type] # at run time it is one
            self._change = msgspec.json.Decoder(_ChangeLine[object_type])  # type: ignore[valid-type] # at run time it is one

    def read_object(self, body: bytes) -> T:
        """Return the object of an answer.

        Raises:
            UndecodableObject: It does not fit the struct.
            MalformedAnswer: The answer is not an API object at all.
        """
        item = _read_flat(self._read, body)
        if isinstance(item, DecodeFailure):
            raise UndecodableObject(item)
        return item

    def read_page(self, body: bytes) -> Page[T]:
        """Return the page of a list.

        Raises:
            MalformedAnswer: The answer is not a list.
        """
        return _read_flat(self._read_page, body)

    def read_event(self, line: bytes) -> WatchEvent[T]:
        """Return the event of one line of a watch.

        Raises:
            MalformedAnswer: The line is not an event.
        """
        return _read_flat(self._read_event, line)

    def _read_page(self, body: bytes) -> Page[T]:
        items: tuple[T | DecodeFailure, ...]
        try:
            whole = self._list.decode(body)
            metadata, items = whole.metadata, tuple(whole.items or ())
        except msgspec.DecodeError:
            # Decode object by object, to find those that do not fit.
            try:
                raw = _raw_list.decode(body)
            except msgspec.DecodeError as error:
                raise MalformedAnswer(f"the answer is no list: {error}") from error
            metadata, items = raw.metadata, tuple(map(self._read, raw.items or ()))
        return Page(items, metadata.resource_version, metadata.continue_token)

    def _read_event(self, line: bytes) -> WatchEvent[T]:
        try:
            change = self._change.decode(line)
        except msgspec.DecodeError:
            return self._read_event_in_parts(line)
        return WatchEvent(change.type, change.object, _version_of(change.object))

    def _read_event_in_parts(self, line: bytes) -> WatchEvent[T]:
        """Read a line that is no change, or whose object does not fit its struct."""
        try:
            event = _event_line.decode(line)
        except msgspec.DecodeError as error:
            raise MalformedAnswer(f"a line of a watch is no event: {error}") from error
        if event.type == "ERROR":
            return WatchEvent("ERROR", status=_read_status(event.object))
        if event.type == "BOOKMARK":
            return WatchEvent("BOOKMARK", resource_version=_identify(event.object).resource_version)
        item = self._read(event.object)
        if isinstance(item, DecodeFailure):
            return WatchEvent(event.type, resource_version=item.resource_version, undecodable=item)
        return WatchEvent(event.type, item, _version_of(item))

    def _read(self, body: bytes | msgspec.Raw) -> T | DecodeFailure:
        try:
            return self._object.decode(body)
        except msgspec.DecodeError:
            pass  # rare: it may be decodable without its nulls or its deepest levels
        try:
            return self._object.decode(_without_nulls(body))
        except msgspec.DecodeError as error:
            found, text = _identify(body), str(error)
            return DecodeFailure(
                found.namespace,
                found.name,
                Uid(found.uid),
                found.resource_version,
                text,
                self._save(body, text),
            )

    def _save(self, body: bytes | msgspec.Raw, error: str) -> T | None:
        if self._salvage is None:
            return None
        try:
            return self._salvage(msgspec.json.decode(_without_nulls(body)), error)
        except msgspec.MsgspecError:
            return None


def read_json(body: bytes) -> Any:  # noqa: ANN401 - decoded JSON
    """Return decoded JSON, whatever its depth.

    Raises:
        MalformedAnswer: The body is not JSON.
    """
    try:
        return _read_flat(msgspec.json.decode, body)
    except msgspec.DecodeError as error:
        raise MalformedAnswer(f"the answer is no JSON: {error}") from error


def read_whole(body: bytes) -> dict[str, Any]:
    """Return a whole object, of which parts are written back.

    Raises:
        TextError: It is nested too deep: without its deepest levels it would be another object.
        MalformedAnswer: The answer is no JSON object.
    """
    try:
        found = msgspec.json.decode(body)
    except RecursionError as error:
        raise TextError(one_line(error)) from error
    except msgspec.DecodeError as error:
        raise MalformedAnswer(f"the answer is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise MalformedAnswer("the answer is no object")
    return found


def _read_flat(read: Callable[[bytes], ReadT], body: bytes) -> ReadT:
    """Decode; if the answer is nested too deeply for that, decode it without its deepest levels.

    The API server accepts ten thousand levels in an object without a schema. One such object must
    not keep the others of its list from being decoded.
    """
    try:
        return read(body)
    except RecursionError:
        return read(flattened(body))


def flattened(body: bytes) -> bytes:
    """Return the JSON with null in place of everything nested deeper than `MAX_DEPTH`."""
    parts = []
    depth = begin = 0
    for token in _BRACKET.finditer(body):
        if token[0] in _OPENING:
            depth += 1
            if depth == MAX_DEPTH:
                parts += [body[begin : token.start()], b"null"]
        elif token[0] in _CLOSING:
            if depth == MAX_DEPTH:
                begin = token.end()
            depth -= 1
    return b"".join([*parts, body[begin:]])


def _identify(body: bytes | msgspec.Raw) -> _Identity:
    """Return what identifies the object.

    Raises:
        MalformedAnswer: Not even that can be decoded.
    """
    try:
        return _identified.decode(body).metadata
    except msgspec.DecodeError as error:
        raise MalformedAnswer(f"the answer is no object: {error}") from error


def _without_nulls(body: bytes | msgspec.Raw) -> bytes:
    """Return the object without the fields that are null, which Go treats as absent.

    The API server drops them where a schema describes the field. In an object without a schema,
    such as the pod template of a unit, they stay, and Go writes null for empty lists.
    """
    return msgspec.json.encode(_drop_nulls(msgspec.json.decode(body)))


def _drop_nulls(value: Any) -> Any:  # noqa: ANN401 - decoded JSON
    if isinstance(value, dict):
        return {key: _drop_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_drop_nulls(one) for one in value]
    return value


def _read_status(body: msgspec.Raw) -> tuple[int, str, str]:
    try:
        said = _status.decode(body)
    except msgspec.DecodeError as error:
        return (0, "", str(error))
    return (said.code, said.reason, said.message)


def _version_of(item: object) -> str:
    """Return `metadata.resourceVersion` of a struct; "" if it has none."""
    version: str = getattr(getattr(item, "metadata", None), "resource_version", "")
    return version
