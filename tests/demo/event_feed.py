"""Reads all changes of one kind from the API, on its own connection.

A list, then a watch from its version; when the watch ends, another one from its last version; when
that version is too old, a list again, and objects missing from it count as deleted. Each change
becomes a `Seen`, in the order of the watch.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import Final

from shared_api.client.errors import ConnectionLost, Gone, StreamIdle
from shared_api.client.transport import ResponseStream
from shared_api.process.clock import Clock
from tests.demo.json_api import Json, JsonApi, Kind

IDLE_SECONDS: Final = 1.0
"""How long a step waits for changes; a broken connection is detected at once."""
MOST_LINES: Final = 500
"""Events per step."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One change, as seen by a client.

    Attributes:
        plural: the kind.
        body: the object after the change, or before a deletion.
        is_gone: whether the object was deleted.
        version: the resourceVersion, which orders the changes of all kinds.
        at: the time of arrival, in monotonic seconds.
    """

    plural: str
    body: Json
    is_gone: bool
    version: int
    at: float


class EventFeed:
    """Watches one kind. `step` is for one thread; another one may empty `sink`."""

    def __init__(self, api: JsonApi, kind: Kind, clock: Clock, sink: deque[Seen]) -> None:
        self.kind = kind
        self._api = api
        self._clock = clock
        self._sink = sink
        self._known: dict[str, Json] = {}
        self._version = ""
        self._stream: ResponseStream | None = None

    def step(self) -> float:
        """Read the available changes, or wait a while for them; return the seconds to rest."""
        if not self._version:
            self._list()
        if self._stream is None:
            try:
                self._stream = self._api.watch(self.kind, self._version)
            except Gone:
                self._version = ""
                return 0.0
        self._read(self._stream)
        return 0.0

    def unblock(self) -> None:
        """Make a waiting step return, from another thread."""
        if self._stream is not None:
            self._stream.close()

    def _list(self) -> None:
        items, version = self._api.list_with_version(self.kind)
        found = {item["metadata"]["uid"]: item for item in items}
        for uid in [uid for uid in self._known if uid not in found]:
            self._publish(self._known[uid], version, is_gone=True)
        for uid, item in found.items():
            version_of_item = item["metadata"]["resourceVersion"]
            known = self._known.get(uid)
            if known is None or known["metadata"]["resourceVersion"] != version_of_item:
                self._publish(item, version_of_item, is_gone=False)
        self._version = version

    def _read(self, stream: ResponseStream) -> None:
        try:
            seconds = IDLE_SECONDS
            for _ in range(MOST_LINES):
                line = stream.read_line(seconds)
                if line is None:
                    break
                self._take(json.loads(line))
                seconds = 0.0
            else:
                return
        except StreamIdle:
            return
        except ConnectionLost:
            pass  # it broke or was closed by `unblock`
        stream.close()
        self._stream = None

    def _take(self, event: Json) -> None:
        if event["type"] == "ERROR":
            self._version = ""  # too old: list again
            return
        body = event["object"]
        self._version = body["metadata"]["resourceVersion"]
        if event["type"] != "BOOKMARK":
            self._publish(body, self._version, is_gone=event["type"] == "DELETED")

    def _publish(self, body: Json, version: str, *, is_gone: bool) -> None:
        uid = body["metadata"]["uid"]
        if is_gone:
            self._known.pop(uid, None)
        else:
            self._known[uid] = body
        self._sink.append(
            Seen(
                plural=self.kind.plural,
                body=body,
                is_gone=is_gone,
                version=int(version),
                at=self._clock.monotonic(),
            )
        )
