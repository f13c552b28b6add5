"""What the API server's answers mean: bytes -> objects, pages, events.

An object that does not fit its struct is not an error of the call that brought it, unless that
call was about this object alone: it becomes a `DecodeFailure` among its healthy neighbours.
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

T = TypeVar("T")
ReadT = TypeVar("ReadT")

MAX_DEPTH: Final = 200
"""Levels that are read of an answer too deep for the decoder, which gives up near Python's
recursion limit (1000, less the callers' frames). What the structs hold is within twenty."""

_BRACKET: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]', re.DOTALL)
"""A bracket; or a whole string, so that brackets in it do not count."""
_OPENING: Final = (b"[", b"{")
_CLOSING: Final = (b"]", b"}")

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list, in the server's order."""

    items: tuple[T | DecodeFailure, ...]
    resource_version: str
    continue_token: str = ""
    """Asks for the next page; "" at the end."""


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One event of a watch."""

    type: EventType
    object: T | None = None
    """The object after the change, or before a deletion. None in BOOKMARK and ERROR, and when it
    could not be read."""
    resource_version: str = ""
    """Where a watch may resume; "" in ERROR."""
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
            idle_seconds: How long to wait for it; 0: only what has already arrived.

        Raises:
            StreamIdle: Nothing came in that time; the watch goes on.
            ConnectionLost: The watch broke, or was closed.
            MalformedAnswer: A line is no event.
        """
        line = self._stream.read_line(idle_seconds)
        return None if line is None else self._reader.read_event(line)

    def close(self) -> None:
        """End the watch. From any thread, any number of times; a blocked reader returns."""
        self._stream.close()


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _ListOf(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None = None


class _EventLine(msgspec.Struct):
    type: EventType
    object: msgspec.Raw


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

# msgspec learns the fields of a struct when the first decoder needs them, in steps between which
# Python may switch threads. A second decoder over the same struct, or one inside it, then meets it
# half learnt, and the process dies (seen with msgspec 0.22: segmentation fault). Guards no field,
# but the making of decoders: those of all API objects are made here, one after the other.
_building: Final = threading.Lock()


class AnswerReader(Generic[T]):
    """Reads answers about one type of object. Used from many threads."""

    def __init__(
        self, object_type: type[T], salvage: Callable[[Any, str], T] | None = None
    ) -> None:
        self._salvage = salvage
        with _building:
            self._object = msgspec.json.Decoder(object_type)
            self._list = msgspec.json.Decoder(_ListOf[object_type])  # type: ignore[valid-type] # at run time it is one

    def read_object(self, body: bytes) -> T:
        """Read one object.

        Raises:
            UndecodableObject: It does not fit the struct.
            MalformedAnswer: It is no object at all.
        """
        item = _read_flat(self._read, body)
        if isinstance(item, DecodeFailure):
            raise UndecodableObject(item)
        return item

    def read_page(self, body: bytes) -> Page[T]:
        """Read one page of a list.

        Raises:
            MalformedAnswer: It is no list.
        """
        return _read_flat(self._read_page, body)

    def read_event(self, line: bytes) -> WatchEvent[T]:
        """Read one line of a watch.

        Raises:
            MalformedAnswer: It is no event.
        """
        return _read_flat(self._read_event, line)

    def _read_page(self, body: bytes) -> Page[T]:
        items: tuple[T | DecodeFailure, ...]
        try:
            whole = self._list.decode(body)
            metadata, items = whole.metadata, tuple(whole.items or ())
        except msgspec.DecodeError:
            # Now object by object, to find the ones that do not fit.
            try:
                raw = _raw_list.decode(body)
            except msgspec.DecodeError as error:
                raise MalformedAnswer(f"the answer is no list: {error}") from error
            metadata, items = raw.metadata, tuple(map(self._read, raw.items or ()))
        return Page(items, metadata.resource_version, metadata.continue_token)

    def _read_event(self, line: bytes) -> WatchEvent[T]:
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
            pass  # rare: it may be readable all the same
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
    """Read anything, however deep it is nested.

    Raises:
        MalformedAnswer: It is no JSON.
    """
    try:
        return _read_flat(msgspec.json.decode, body)
    except msgspec.DecodeError as error:
        raise MalformedAnswer(f"the answer is no JSON: {error}") from error


def _read_flat(read: Callable[[bytes], ReadT], body: bytes) -> ReadT:
    """Read, and where the answer is nested too deep for that, read it without its depths.

    The API server takes ten thousand levels in an open object. One such object must not keep
    all others of its list from being read.
    """
    try:
        return read(body)
    except RecursionError:
        return read(flattened(body))


def flattened(body: bytes) -> bytes:
    """Return the JSON with null in place of what is nested deeper than `MAX_DEPTH`."""
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
    """Read as much as names the object.

    Raises:
        MalformedAnswer: Not even that is there.
    """
    try:
        return _identified.decode(body).metadata
    except msgspec.DecodeError as error:
        raise MalformedAnswer(f"the answer is no object: {error}") from error


def _without_nulls(body: bytes | msgspec.Raw) -> bytes:
    """Return the object without the fields that are null: to Go's readers these are absent.

    The API server drops them where a schema says what a field is. In an open object, such as the
    pod template of a unit, they stay, and Go writes them for lists that are empty.
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
    """Return `metadata.resourceVersion` of any struct that has it."""
    version: str = getattr(getattr(item, "metadata", None), "resource_version", "")
    return version
