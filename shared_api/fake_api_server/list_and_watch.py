"""Lists and watches: how clients read the storage.

A list is consistent across its pages: the continue token has the version of the first page, and
later pages are taken from the snapshot at that version, or refused with 410 when it is forgotten. A
watch first replays the changes since its version, then gets each change as it happens. If an object
starts to match the selector it is ADDED, if it stops matching it is DELETED.

Not thread-safe: the server's lock guards it.
"""

from __future__ import annotations

import base64
import binascii
import random
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from shared_api.fake_api_server.api_errors import (
    Cause,
    RequestFailed,
    bad_request,
    forbidden_field,
    invalid,
    not_found,
    version_too_large,
)
from shared_api.fake_api_server.faults import RequestInfo
from shared_api.fake_api_server.object_storage import (
    ObjectKey,
    ObjectStorage,
    StoredChange,
    StoredObject,
    Table,
    after_key,
    in_namespace,
)
from shared_api.fake_api_server.patching import Body
from shared_api.fake_api_server.resource_registry import ServedResource
from shared_api.fake_api_server.response_formats import AnswerWriter, ListPage
from shared_api.fake_api_server.selectors import (
    BodyPredicate,
    parse_field_selector,
    parse_label_selector,
)
from shared_api.fake_api_server.watch_stream import FakeStream, StreamPlan
from shared_api.process.clock import Clock

Query = Mapping[str, str]
MIN_WATCH_SECONDS: Final = 1800.0
"""A watch without `timeoutSeconds` lasts once to twice this. Source: --min-request-timeout."""
_NEWEST: Final = frozenset({"", "0"})


class _Token(msgspec.Struct, frozen=True):
    """A continue token, with the fields of the real server's."""

    v: str
    rv: int
    start: str


class ReadPath:
    """Answers lists and opens watches."""

    def __init__(
        self,
        storage: ObjectStorage,
        clock: Clock,
        rng: random.Random,
        *,
        waits: bool,
        bookmark_seconds: float,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._rng = rng
        self._waits = waits
        self._bookmark_seconds = bookmark_seconds

    def get(self, resource: ServedResource, key: ObjectKey) -> StoredObject:
        """Return an object.

        Raises:
            RequestFailed: 404, it does not exist.
        """
        found = self._storage.find(resource.table_key, key)
        if found is None:
            raise not_found(resource, key[1])
        return found

    # --------------------------------------------------------------------------- lists

    def list_page(self, resource: ServedResource, namespace: str, query: Query) -> ListPage:
        """Return a list, or the page that the query asks for; "" stands for all namespaces.

        Raises:
            RequestFailed: 400 or 422 for an invalid query, 410 for a version that is no longer
                known, 504 for one that does not exist yet.
        """
        predicate = _predicate(resource, query)
        limit = _whole_number(query.get("limit", ""))
        version, start = self._requested_version(query, has_limit=limit > 0)
        table = self._storage.table(resource.table_key)
        snapshot = in_namespace(table.snapshot(version), namespace)
        if start is not None:
            snapshot = after_key(snapshot, start)
        if not limit and predicate is None:
            return ListPage(snapshot, version)
        return _cut(snapshot, predicate, limit, version)

    def _requested_version(self, query: Query, *, has_limit: bool) -> tuple[int, ObjectKey | None]:
        """Return the version to list at, and the key to continue after."""
        requested, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
        if token := query.get("continue", ""):
            if requested not in _NEWEST:
                raise bad_request("specifying resource version is not allowed when using continue")
            return _read_token(token)
        _check_match(requested, match)
        current = self._storage.version
        if requested in _NEWEST:
            return current, None
        version = _version_number(requested, HTTPStatus.BAD_REQUEST, "invalid resource version: ")
        if version > current:
            raise version_too_large(version, current)
        is_exact = match == "Exact" or (not match and has_limit)
        return (version if is_exact else current), None

    # ------------------------------------------------------------------------- watches

    def watch(
        self,
        resource: ServedResource,
        info: RequestInfo,
        query: Query,
        writer: AnswerWriter,
        on_close: Callable[[FakeStream], None],
    ) -> FakeStream:
        """Open a watch.

        Args:
            resource: the kind.
            info: the request; its namespace limits the watch.
            query: the version to start after, selectors, timeout, and bookmarks.
            writer: writes the events.
            on_close: called once with the stream when it is over.

        Raises:
            RequestFailed: 400, 422, or 500 for an invalid query. A version that is too old is
                reported as the only event of the stream.
        """
        predicate = _predicate(resource, query)
        start = _watch_version(query)
        seconds = _whole_number(query.get("timeoutSeconds", ""))
        lasts = seconds or MIN_WATCH_SECONDS * (1 + self._rng.random())
        wants_bookmarks = query.get("allowWatchBookmarks") in {"true", "1"}
        table = self._storage.table(resource.table_key)
        feed = _Feed(writer, info.namespace, predicate)
        plan = StreamPlan(
            waits=self._waits,
            ends_at=self._clock.monotonic() + lasts,
            bookmark_seconds=self._bookmark_seconds if wants_bookmarks else None,
        )

        def closed(stream: FakeStream) -> None:
            on_close(stream)
            if feed.take in table.listeners:
                table.listeners.remove(feed.take)

        stream = FakeStream(
            info, self._clock, plan, make_bookmark=self._bookmark_maker(writer), on_close=closed
        )
        feed.push = stream.push
        try:
            self._replay(feed, table, start)
        except RequestFailed as refused:
            stream.push(error_line(refused))
            stream.end()
            return stream
        if start is None and wants_bookmarks:
            stream.push(writer.bookmark(self._storage.version, ends_initial_events=True))
        table.listeners.append(feed.take)
        return stream

    def _bookmark_maker(self, writer: AnswerWriter) -> Callable[[FakeStream], None]:
        return lambda stream: stream.push(writer.bookmark(self._storage.version))

    def _replay(self, feed: _Feed, table: Table, start: int | None) -> None:
        now = self._storage.version
        if start is None:
            for stored in in_namespace(table.snapshot(now), feed.namespace):
                feed.take(StoredChange("ADDED", stored.version, stored, None))
            return
        for change in table.changes_after(start):
            feed.take(change)


class _Feed:
    """Writes changes as the lines of one watch."""

    def __init__(
        self, writer: AnswerWriter, namespace: str, predicate: BodyPredicate | None
    ) -> None:
        self.namespace = namespace
        self.push: Callable[[bytes], None] = lambda _line: None
        self._writer = writer
        self._predicate = predicate
        self._is_first = True

    def take(self, change: StoredChange) -> None:
        """Push the line for a change, if the watch selects the object before or after it."""
        current, previous = change.current, change.previous
        if self.namespace and current.namespace != self.namespace:
            return
        if self._predicate is None:
            self._write(change.type, current)
            return
        is_in = change.type != "DELETED" and self._predicate(current.body)
        was_in = previous is not None and self._predicate(previous.body)
        if is_in:
            self._write("MODIFIED" if was_in else "ADDED", current)
        elif was_in and change.type == "DELETED":
            self._write("DELETED", current)
        elif was_in and previous is not None:
            # The object no longer matches: the watch gets its last matching state, at the new
            # version.
            self._write("DELETED", _at_version(previous, change.version))

    def _write(self, change_type: str, stored: StoredObject) -> None:
        self.push(self._writer.event(change_type, stored, is_first=self._is_first))
        self._is_first = False


def error_line(refused: RequestFailed) -> bytes:
    """Return the ERROR event of a watch."""
    return msgspec.json.encode({"type": "ERROR", "object": refused.status()})


def _at_version(stored: StoredObject, version: int) -> StoredObject:
    metadata = {**stored.body["metadata"], "resourceVersion": str(version)}
    return StoredObject(stored.key, {**stored.body, "metadata": metadata}, version)


def _cut(
    snapshot: list[StoredObject], predicate: BodyPredicate | None, limit: int, version: int
) -> ListPage:
    """Return the first page. As in the real server, the rest may have no further match."""
    if predicate is None:
        if len(snapshot) <= limit:
            return ListPage(snapshot, version)
        page = snapshot[:limit]
        return ListPage(page, version, _write_token(version, page[-1]), len(snapshot) - limit)
    found: list[StoredObject] = []
    for i, stored in enumerate(snapshot):
        if predicate(stored.body):
            found.append(stored)
            if len(found) == limit and i + 1 < len(snapshot):
                return ListPage(found, version, _write_token(version, stored))
    return ListPage(found, version)


def _predicate(resource: ServedResource, query: Query) -> BodyPredicate | None:
    labels = parse_label_selector(query.get("labelSelector", ""))
    fields = parse_field_selector(query.get("fieldSelector", ""), resource.fields)
    if labels is None:
        return fields
    by_labels = labels

    def matches(body: Body) -> bool:
        found = body["metadata"].get("labels") or {}
        return by_labels(found) and (fields is None or fields(body))

    return matches


def _write_token(version: int, last: StoredObject) -> str:
    start = f"{last.namespace}/{last.name}\0"
    token = msgspec.json.encode(_Token("meta.k8s.io/v1", version, start))
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def _read_token(text: str) -> tuple[int, ObjectKey]:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    namespace, _, name = token.start.rstrip("\0").partition("/")
    return token.rv, (namespace, name)


def _whole_number(text: str) -> int:
    if not text:
        return 0
    if not text.isdecimal():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def _version_number(text: str, code: int, prefix: str) -> int:
    if text.isdecimal():
        return int(text)
    message = (
        f'{prefix}resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": '
        "invalid syntax"
    )
    raise RequestFailed(code, "BadRequest" if code == HTTPStatus.BAD_REQUEST else "", message)


def _watch_version(query: Query) -> int | None:
    """Return the version that a watch starts after; None to start with all objects.

    Raises:
        RequestFailed: 500 if it is not a number (as the real server), 422 for a missing match.
    """
    requested = query.get("resourceVersion", "")
    if query.get("sendInitialEvents") in {"true", "1"}:
        if query.get("resourceVersionMatch") != "NotOlderThan":
            raise _invalid_options(
                "sendInitialEvents",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            )
        return None
    return (
        None
        if requested in _NEWEST
        else _version_number(requested, HTTPStatus.INTERNAL_SERVER_ERROR, "")
    )


def _check_match(requested: str, match: str) -> None:
    if not match:
        return
    if not requested:
        raise _invalid_options(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        )
    if match == "Exact" and requested == "0":
        raise _invalid_options(
            "resourceVersionMatch",
            'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        )
    if match not in {"Exact", "NotOlderThan"}:
        why = 'supported values: "Exact", "NotOlderThan", ""'
        cause = Cause(
            "resourceVersionMatch",
            "FieldValueNotSupported",
            f'Unsupported value: "{match}": {why}',
        )
        raise invalid("ListOptions", "meta.k8s.io", "", [cause])


def _invalid_options(field: str, why: str) -> RequestFailed:
    return invalid("ListOptions", "meta.k8s.io", "", [forbidden_field(field, why)])
