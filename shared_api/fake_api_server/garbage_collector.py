"""Garbage collection by owner and by namespace, as kube-controller-manager does it.

It observes the storage and keeps existing objects and their dependents by uid. A change queues
work; `step()` processes one item through the write path of requests. The server calls `collect()`
after each write (the real garbage collector runs a moment later), unless the test does so itself.

Background: dependents whose owners are all deleted are deleted. Foreground: dependents are deleted
first, and the owner when no blocking dependent is left. Orphan: owner references are removed,
dependents stay. A terminating namespace is emptied and removed. An owner of a kind that is not
served counts as existing.

Not thread-safe: the server's lock guards it.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from shared_api.fake_api_server.builtin_kinds import NAMESPACE_FINALIZER, NAMESPACES
from shared_api.fake_api_server.object_storage import (
    ObjectKey,
    ObjectStorage,
    StoredChange,
    Table,
    TableKey,
)
from shared_api.fake_api_server.patching import Body
from shared_api.fake_api_server.resource_registry import ResourceRegistry
from shared_api.fake_api_server.writes import (
    FOREGROUND_FINALIZER,
    ORPHAN_FINALIZER,
    BodyChange,
    DeleteOptions,
    WriteOptions,
    WritePath,
)

_WRITE: Final = WriteOptions()


class _Place(NamedTuple):
    """The table and the key of an object."""

    table: TableKey
    key: ObjectKey


class GarbageCollector:
    """Deletes objects whose owners are deleted."""

    def __init__(
        self, storage: ObjectStorage, registry: ResourceRegistry, writes: WritePath
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._writes = writes
        self._living: dict[str, _Place] = {}
        self._dependents: dict[str, set[_Place]] = {}
        self._queue: deque[_Place] = deque()
        storage.observers.append(self._on_change)

    @property
    def has_work(self) -> bool:
        """Whether `step` has anything to process."""
        return bool(self._queue)

    def collect(self) -> None:
        """Process the queue until it is empty, including work that this creates."""
        while self.step():
            pass

    def step(self) -> bool:
        """Process one object; return False if the queue was empty."""
        if not self._queue:
            return False
        place = self._queue.popleft()
        body = self._body(place)
        if body is None:
            return True
        metadata = body["metadata"]
        if place.table == NAMESPACES and "deletionTimestamp" in metadata:
            self._empty_namespace(place, body)
        finalizers = metadata.get("finalizers") or ()
        if "deletionTimestamp" in metadata and ORPHAN_FINALIZER in finalizers:
            self._orphan(place, metadata)
        elif "deletionTimestamp" in metadata and FOREGROUND_FINALIZER in finalizers:
            self._delete_dependents_first(place, metadata)
        elif metadata.get("ownerReferences") and "deletionTimestamp" not in metadata:
            self._delete_if_unowned(place, metadata)
        return True

    # ------------------------------------------------------------------------- noticing

    def _on_change(self, table: Table, change: StoredChange) -> None:
        place = _Place(table.key, change.current.key)
        metadata = change.current.body["metadata"]
        before = change.previous.body["metadata"] if change.previous else {}
        for owner in _owner_uids(before):
            self._forget_dependent(owner, place)
        if change.type == "DELETED":
            self._on_gone(place, metadata)
            return
        self._living[metadata["uid"]] = place
        for owner in _owner_uids(metadata):
            self._dependents.setdefault(owner, set()).add(place)
        owners_changed = metadata.get("ownerReferences") is not before.get("ownerReferences")
        newly_deleted = "deletionTimestamp" in metadata and "deletionTimestamp" not in before
        if owners_changed or newly_deleted:
            self._queue.append(place)

    def _on_gone(self, place: _Place, metadata: Body) -> None:
        self._living.pop(metadata["uid"], None)
        # Sorted, so that the order of deletion does not depend on the hash seed.
        self._queue.extend(sorted(self._dependents.get(metadata["uid"], ())))
        # Owners in foreground deletion, and a terminating namespace, may be waiting for this
        # object.
        for owner in _owner_uids(metadata):
            if owner in self._living:
                self._queue.append(self._living[owner])
        namespace = _Place(NAMESPACES, ("", place.key[0]))
        found = self._body(namespace) if place.key[0] else None
        if found is not None and "deletionTimestamp" in found["metadata"]:
            self._queue.append(namespace)

    def _forget_dependent(self, owner: str, place: _Place) -> None:
        places = self._dependents.get(owner)
        if places is not None:
            places.discard(place)
            if not places:
                del self._dependents[owner]

    # ---------------------------------------------------------------------------- doing

    def _delete_if_unowned(self, place: _Place, metadata: Body) -> None:
        owners = metadata["ownerReferences"]
        if not any(self._is_there(owner) for owner in owners):
            self._delete(place, metadata["uid"])

    def _is_there(self, owner: Body) -> bool:
        if owner["uid"] in self._living:
            return True
        return self._registry.of_kind(owner["apiVersion"], owner["kind"]) is None

    def _orphan(self, place: _Place, metadata: Body) -> None:
        for dependent in sorted(self._dependents.get(metadata["uid"], ())):
            self._drop_owner(dependent, metadata["uid"])
        self._drop_finalizer(place, ORPHAN_FINALIZER)

    def _delete_dependents_first(self, place: _Place, metadata: Body) -> None:
        uid = metadata["uid"]
        for dependent in sorted(self._dependents.get(uid, ())):
            body = self._body(dependent)
            if body is None or "deletionTimestamp" in body["metadata"]:
                continue
            others = [o for o in body["metadata"]["ownerReferences"] if o["uid"] != uid]
            if others and any(self._is_there(owner) for owner in others):
                self._drop_owner(dependent, uid)
            else:
                self._delete(dependent, body["metadata"]["uid"])
        if not any(self._blocks(dependent, uid) for dependent in self._dependents.get(uid, ())):
            self._drop_finalizer(place, FOREGROUND_FINALIZER)

    def _blocks(self, dependent: _Place, uid: str) -> bool:
        body = self._body(dependent)
        owners = body["metadata"].get("ownerReferences") or () if body is not None else ()
        return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners)

    def _empty_namespace(self, place: _Place, body: Body) -> None:
        namespace = place.key[1]
        inside = [
            _Place(table.key, key)
            for table in self._storage.tables.values()
            for key in sorted(table.objects)
            if key[0] == namespace
        ]
        for item in inside:
            found = self._body(item)
            if found is not None and "deletionTimestamp" not in found["metadata"]:
                self._delete(item, found["metadata"]["uid"])
        if any(self._body(item) is not None for item in inside):
            return
        if NAMESPACE_FINALIZER in (body.get("spec", {}).get("finalizers") or ()):
            self._update(place, lambda old: {**old, "spec": {}})

    # ------------------------------------------------------------------------- the writes

    def _body(self, place: _Place) -> Body | None:
        found = self._storage.find(place.table, place.key)
        return None if found is None else found.body

    def _delete(self, place: _Place, uid: str) -> None:
        resource = self._registry.stored_in(place.table)
        if resource is not None:
            options = DeleteOptions(uid=uid, propagation="Background")
            self._writes.delete(resource, place.key, options)

    def _drop_owner(self, place: _Place, uid: str) -> None:
        def without(body: Body) -> Body:
            metadata = body["metadata"]
            owners = [owner for owner in metadata["ownerReferences"] if owner["uid"] != uid]
            return {**body, "metadata": {**metadata, "ownerReferences": owners}}

        self._update(place, without)

    def _drop_finalizer(self, place: _Place, finalizer: str) -> None:
        def without(body: Body) -> Body:
            metadata = body["metadata"]
            kept = [one for one in metadata["finalizers"] if one != finalizer]
            return {**body, "metadata": {**metadata, "finalizers": kept}}

        self._update(place, without)

    def _update(self, place: _Place, change: BodyChange) -> None:
        resource = self._registry.stored_in(place.table)
        if resource is not None:
            self._writes.update(resource, place.key, change, _WRITE)


def _owner_uids(metadata: Body) -> list[str]:
    return [owner["uid"] for owner in metadata.get("ownerReferences") or ()]
