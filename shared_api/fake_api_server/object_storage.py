"""The objects of the fake API server, their versions, and their recent history.

One counter numbers every change of every object, as the revision of etcd does. Each kind has a
`Table`: the current objects, and the last changes in order. The changes serve two purposes: a watch
that starts at an old version replays them, and a list at an old version undoes them. Once they are
forgotten (`HISTORY_CHANGES`, or `forget_history`), both are refused with 410.

A `StoredObject` is immutable; an update replaces it. So a snapshot is a list of references, and the
JSON of an object is encoded once per version, not once per reader. `apiVersion` and `kind` are not
stored: they depend on the path that an object is read by.

Not thread-safe: the server's one lock guards all of this.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from shared_api.fake_api_server.api_errors import expired
from shared_api.fake_api_server.patching import Body

HISTORY_CHANGES: Final = 10_000
"""Changes remembered per kind. The real server's watch cache keeps 100 to 102,400 of them, and etcd
five minutes."""
KEPT_SNAPSHOTS: Final = 8
"""Sorted snapshots kept for paged lists; others are rebuilt by undoing changes."""

ObjectKey: TypeAlias = tuple[str, str]
"""Namespace ("" for cluster-scoped) and name; sorts as the API server sorts lists."""
TableKey: TypeAlias = tuple[str, str]
"""Group and plural; the versions of a kind share one table."""
ChangeType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]

_encode: Final = msgspec.json.Encoder().encode
_version_of: Final = attrgetter("version")


class StoredObject:
    """One version of one object."""

    __slots__ = ("_json", "body", "name", "namespace", "version")

    def __init__(self, key: ObjectKey, body: Body, version: int) -> None:
        self.namespace, self.name = key
        self.body = body
        self.version = version
        self._json: bytes | None = None

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return (self.namespace, self.name)

    @property
    def json(self) -> bytes:
        """The body as JSON, encoded at first use."""
        if self._json is None:
            self._json = _encode(self.body)
        return self._json


class StoredChange(NamedTuple):
    """A change of an object, and its version."""

    type: ChangeType
    version: int
    current: StoredObject
    """The object after it; for DELETED the last state, with the version of the deletion."""
    previous: StoredObject | None
    """The object before it; None for ADDED."""


ChangeListener: TypeAlias = Callable[[StoredChange], None]
"""Called with each change of a table, before the request that caused it is answered."""
ChangeObserver: TypeAlias = Callable[["Table", StoredChange], None]
"""Called with each change of any table, after its listeners."""


class Table:
    """The objects of one kind."""

    __slots__ = ("_changes", "_snapshots", "forgotten", "key", "limit", "listeners", "objects")

    def __init__(self, key: TableKey, born: int, limit: int) -> None:
        self.key = key
        self.objects: dict[ObjectKey, StoredObject] = {}
        self.listeners: list[ChangeListener] = []
        self.limit = limit
        self.forgotten = born
        """The newest version whose change is no longer known."""
        self._changes: list[StoredChange] = []
        self._snapshots: OrderedDict[int, list[StoredObject]] = OrderedDict()

    def record(self, change: StoredChange) -> None:
        """Append a change to the history and call the listeners."""
        self._changes.append(change)
        # Deleting half at a time costs one move per change on average.
        if len(self._changes) > 2 * self.limit:
            self._forget(len(self._changes) - self.limit)
        for listener in tuple(self.listeners):
            listener(change)

    def forget_history(self, now: int) -> None:
        """Forget all changes up to this version: older watches, lists, and tokens get 410."""
        self._changes.clear()
        self._snapshots.clear()
        self.forgotten = now

    def changes_after(self, version: int) -> list[StoredChange]:
        """Return the changes that came after a version.

        Raises:
            RequestFailed: 410, they are forgotten.
        """
        if version < self.forgotten:
            raise expired(f"too old resource version: {version} ({self.forgotten})")
        return self._changes[bisect_right(self._changes, version, key=_version_of) :]

    def snapshot(self, version: int) -> list[StoredObject]:
        """Return the objects at a version, sorted by key; the caller must not change the list.

        Raises:
            RequestFailed: 410, later changes are forgotten.
        """
        if version < self.forgotten:
            raise expired(
                "The provided continue parameter is too old to display a consistent list result. "
                "You can start a new list without the continue parameter."
            )
        until = bisect_right(self._changes, version, key=_version_of)
        # All versions between two changes of this kind have the same objects.
        seen = self._changes[until - 1].version if until else self.forgotten
        kept = self._snapshots.get(seen)
        if kept is not None:
            self._snapshots.move_to_end(seen)
            return kept
        objects = self._undone(until)
        snapshot = [objects[key] for key in sorted(objects)]
        self._snapshots[seen] = snapshot
        if len(self._snapshots) > KEPT_SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return snapshot

    def _undone(self, until: int) -> dict[ObjectKey, StoredObject]:
        """Return the objects after the first `until` remembered changes."""
        later = self._changes[until:]
        if not later:
            return self.objects
        objects = dict(self.objects)
        for change in reversed(later):
            if change.previous is None:
                del objects[change.current.key]
            else:
                objects[change.current.key] = change.previous
        return objects

    def _forget(self, count: int) -> None:
        self.forgotten = self._changes[count - 1].version
        del self._changes[:count]
        for version in [known for known in self._snapshots if known < self.forgotten]:
            del self._snapshots[version]


class ObjectStorage:
    """All tables, and the version counter."""

    def __init__(self, *, history_changes: int = HISTORY_CHANGES) -> None:
        self.version = 1
        self.tables: dict[TableKey, Table] = {}
        self.observers: list[ChangeObserver] = []
        self._history_changes = history_changes

    def table(self, key: TableKey) -> Table:
        """Return the table of a kind; it is created at first use."""
        table = self.tables.get(key)
        if table is None:
            table = self.tables[key] = Table(key, self.version, self._history_changes)
        return table

    def drop_table(self, key: TableKey) -> None:
        """Remove the table of a kind with its objects."""
        self.tables.pop(key, None)

    def insert(self, table: Table, key: ObjectKey, body: Body) -> StoredObject:
        """Store a new object; the key must be free."""
        assert key not in table.objects, f"{key} is taken"
        stored = self._stamp(key, body)
        table.objects[key] = stored
        self._publish(table, StoredChange("ADDED", stored.version, stored, None))
        return stored

    def replace(self, table: Table, old: StoredObject, body: Body) -> StoredObject:
        """Store the next version of an object."""
        stored = self._stamp(old.key, body)
        table.objects[old.key] = stored
        self._publish(table, StoredChange("MODIFIED", stored.version, stored, old))
        return stored

    def remove(self, table: Table, old: StoredObject, body: Body) -> StoredObject:
        """Remove an object; `body` is its last state, which watches get."""
        stored = self._stamp(old.key, body)
        del table.objects[old.key]
        self._publish(table, StoredChange("DELETED", stored.version, stored, old))
        return stored

    def find(self, table_key: TableKey, key: ObjectKey) -> StoredObject | None:
        """Return an object, or None if it does not exist."""
        table = self.tables.get(table_key)
        return None if table is None else table.objects.get(key)

    def _stamp(self, key: ObjectKey, body: Body) -> StoredObject:
        self.version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.version)}
        return StoredObject(key, {**body, "metadata": metadata}, self.version)

    def _publish(self, table: Table, change: StoredChange) -> None:
        table.record(change)
        for observer in self.observers:
            observer(table, change)


def in_namespace(snapshot: list[StoredObject], namespace: str) -> list[StoredObject]:
    """Return the objects of a sorted snapshot in a namespace; "" stands for all."""
    if not namespace:
        return snapshot
    first = bisect_left(snapshot, namespace, key=attrgetter("namespace"))
    return snapshot[first : bisect_right(snapshot, namespace, key=attrgetter("namespace"))]


def after_key(snapshot: list[StoredObject], key: ObjectKey) -> list[StoredObject]:
    """Return the objects of a sorted snapshot after a key."""
    return snapshot[bisect_right(snapshot, key, key=attrgetter("key")) :]


def bodies(objects: Iterable[StoredObject]) -> list[Body]:
    """Return the bodies of the objects."""
    return [stored.body for stored in objects]
