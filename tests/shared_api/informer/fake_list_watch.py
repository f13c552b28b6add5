"""The two methods of the client that an informer uses, with a history in memory, and faults.

Also a handler that records its calls.

Small on purpose: these tests need to control *when* a fault happens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from shared_api.client.errors import (
    ApiFailure,
    ConnectionLost,
    DecodeFailure,
    Gone,
    StreamIdle,
)
from shared_api.client.resource_client import Page, WatchEvent, WatchEventType
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.namespace import Namespace

Item = Namespace | DecodeFailure


class FakeListWatch:
    """Namespaces, their history, and the failures of the next calls."""

    def __init__(self) -> None:
        self.version = 0
        self.births = 0
        self.items: dict[str, Item] = {}
        self.history: list[WatchEvent[Any]] = []
        self.compacted = 0  # versions up to this one can no longer be watched from
        self.list_failures: deque[ApiFailure] = deque()
        self.watch_failures: deque[ApiFailure] = deque()
        self.down = False
        self.lists: list[tuple[int, str]] = []  # (limit, continue token) of every call
        self.watches: list[FakeWatch] = []
        self.before_page: Callable[[], None] = lambda: None
        self._snapshots: dict[str, tuple[list[Item], str]] = {}

    def put(self, name: str, *, uid: str = "", team: str = "") -> Namespace:
        """Create or change an object."""
        kind: WatchEventType = "MODIFIED" if name in self.items else "ADDED"
        item = Namespace(metadata=self._meta(name, uid, team))
        self._record(kind, name, item)
        return item

    def break_object(self, name: str, *, uid: str = "", leaves_rest: bool = False) -> DecodeFailure:
        """Change an object so that it is unreadable, completely or except for a rest."""
        kind: WatchEventType = "MODIFIED" if name in self.items else "ADDED"
        meta = self._meta(name, uid, "")
        rest = Namespace(metadata=meta) if leaves_rest else None
        failure = DecodeFailure(
            "", name, meta.uid, meta.resource_version, "bad - at `$.spec`", rest
        )
        self._record(kind, name, failure)
        return failure

    def delete(self, name: str) -> None:
        """Delete an object; the event has the version of the deletion."""
        uid = uid_of(self.items.pop(name))
        self.version += 1
        meta = ObjectMeta(name=name, uid=uid, resource_version=str(self.version))
        item = Namespace(metadata=meta)
        self.history.append(WatchEvent("DELETED", item, str(self.version)))

    def bookmark(self) -> None:
        """Send open watches a bookmark with the current version."""
        self.history.append(WatchEvent("BOOKMARK", None, str(self.version)))

    def send_error(self, code: int, reason: str, message: str = "") -> None:
        """Send an ERROR event to the open watch."""
        self.watches[-1].extra.append(WatchEvent("ERROR", status=(code, reason, message)))

    def cut_off(self, next_failure: ApiFailure) -> None:
        """Break the open watch, and fail the next one."""
        self.watches[-1].broken = True
        self.watch_failures.append(next_failure)

    def restore_backup(self, version: int) -> None:
        """Lose all changes after this version, as an etcd restored from a backup does."""
        self.version = version
        self.history = [e for e in self.history if int(e.resource_version) <= version]

    def list_page(
        self, resource_type: object, *, limit: int = 500, continue_token: str = "", **_: str
    ) -> Page[Any]:
        """Return a page of the current state, or of the snapshot of the token."""
        self.before_page()
        self.lists.append((limit, continue_token))
        self._fail_from(self.list_failures)
        if continue_token:
            snapshot = self._snapshots.pop(continue_token, None)
            if snapshot is None:
                raise Gone(410, "Expired", "continue token expired")
            items, version = snapshot
        else:
            items, version = [self.items[name] for name in sorted(self.items)], str(self.version)
        page, rest = (items[:limit], items[limit:]) if limit else (items, [])
        token = f"{version}-{len(rest)}" if rest else ""
        self._snapshots[token] = (rest, version)
        return Page(tuple(page), version, token)

    def expire_tokens(self) -> None:
        """Compact, so that unfinished lists cannot continue."""
        self._snapshots.clear()

    def watch(
        self,
        resource_type: object,
        *,
        resource_version: str = "",
        timeout_seconds: int = 300,
        **_: str,
    ) -> Any:
        """Open a `FakeWatch`."""
        self._fail_from(self.watch_failures)
        if int(resource_version) < self.compacted:
            raise Gone(410, "Expired", "too old resource version")
        stream = FakeWatch(self, int(resource_version), timeout_seconds)
        self.watches.append(stream)
        return stream

    def _fail_from(self, failures: deque[ApiFailure]) -> None:
        if self.down:
            raise ConnectionLost("connection refused", sent=False)
        if failures:
            raise failures.popleft()

    def _meta(self, name: str, uid: str, team: str) -> ObjectMeta:
        known = self.items.get(name)
        self.births += known is None
        self.version += 1
        return ObjectMeta(
            name=name,
            uid=Uid(uid) if uid else uid_of(known) if known else Uid(f"uid-{self.births}"),
            resource_version=str(self.version),
            labels={"team": team} if team else {},
        )

    def _record(self, kind: WatchEventType, name: str, item: Item) -> None:
        self.items[name] = item
        if isinstance(item, DecodeFailure):
            event = WatchEvent[Any](kind, None, str(self.version), undecodable=item)
        else:
            event = WatchEvent[Any](kind, item, str(self.version))
        self.history.append(event)


class FakeWatch:
    """One open watch: the history after its version."""

    def __init__(self, server: FakeListWatch, version: int, timeout_seconds: int) -> None:
        self.server = server
        self.timeout_seconds = timeout_seconds
        self.started_at = version
        self.extra: deque[WatchEvent[Any]] = deque()
        self.position = sum(int(e.resource_version) <= version for e in server.history)
        self.ended = False
        self.broken = False
        self.closed = False
        self.silent = False
        self.before_event: Callable[[], None] = lambda: None

    def next_event(self, idle_seconds: float, /) -> WatchEvent[Any] | None:
        """Return the next event; never blocks."""
        self.before_event()
        if self.broken or self.closed:
            raise ConnectionLost("reset by peer", sent=True)
        if self.extra:
            return self.extra.popleft()
        if not self.silent and self.position < len(self.server.history):
            self.position += 1
            return self.server.history[self.position - 1]
        if self.ended:
            return None
        raise StreamIdle(f"nothing for {idle_seconds} s")

    def close(self) -> None:
        """Close the watch."""
        self.closed = True


def uid_of(item: Item) -> Uid:
    """Return the uid of an object, readable or not."""
    return item.uid if isinstance(item, DecodeFailure) else item.metadata.uid


def label(item: Namespace | None) -> str:
    """Return "name@version"."""
    if item is None:
        return "-"
    meta = item.metadata
    return f"{meta.name}@{meta.resource_version}"


class Listener:
    """A handler that records its calls, as "old>new"."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.state: dict[str, Namespace] = {}

    def __call__(self, old: Namespace | None, new: Namespace | None) -> None:
        self.heard.append(f"{label(old)}>{label(new)}")
        some = new if new is not None else old
        assert some is not None
        assert self.state.get(some.metadata.key) == old or old == new
        if new is None:
            del self.state[some.metadata.key]
        else:
            self.state[some.metadata.key] = new

    def take(self) -> list[str]:
        """Return the calls since the last time."""
        heard, self.heard = self.heard, []
        return heard
