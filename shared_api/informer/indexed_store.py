"""A store of objects by key and by the requested indexes; readers see the newest known version.

It receives two kinds of changes, from different threads and in any order:

- versions that were *observed*, by list and watch, in the order of resourceVersions;
- versions that this process has *written*, known from the answer to the write, a little before the
  watch delivers them.

A written version is stored at once, so that the next decision sees it and guards its write with the
newest resourceVersion. Handlers are called when the watch delivers it, so their changes form one
chain: the ``old`` of a change is always the ``new`` of the previous one. In between, the store
remembers the version that handlers last saw of that key (``_ahead``). Observations older than the
written version are ignored.

A race to know: the answer to a write may be processed after the watch has already delivered the
*deletion* of that object, and must not restore the object. ``note_written`` therefore accepts only
versions above everything observed so far; refusing is always safe, because the watch is past that
version and the store already has newer information.

resourceVersions are compared as integers, which the API server guarantees since Kubernetes 1.35
and etcd's revisions have always allowed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from shared_api.objects.meta import NO_UID, ObjectMeta, Uid


class ApiObject(Protocol):
    """Anything with ``metadata``; frozen, so that it can be handed to any thread."""

    @property
    def metadata(self) -> ObjectMeta:
        """Name, namespace, uid, resourceVersion."""


T = TypeVar("T", bound=ApiObject)

Change = tuple[T | None, T | None]
"""(old, new) for handlers: (None, new) added, (old, new) changed, (old, None) deleted."""

# Aliases of list types, because inside IndexedStore "list" is a method.
Changes = list[Change[T]]
Objects = list[T]
Values = list[str]

IndexFunction = Callable[[T], Iterable[str]]
"""Returns the values under which an object is found in one index; none excludes it."""


def version_number(resource_version: str) -> int:
    """Return the resourceVersion as a number that can be compared; 0 for ""."""
    return int(resource_version) if resource_version.isdecimal() else 0


class IndexedStore(Generic[T]):
    """The objects of one resource. Reads from any thread, observations from one.

    Args:
        indexes: Name of an index -> function that returns the values of an object in it.
        transform: Applied to every object before it is stored, with the one that it replaces (None
            for a new one), to save memory: drop fields that are not read, share equal ones. Must
            keep ``metadata``'s name, namespace, uid, resourceVersion.
    """

    def __init__(
        self,
        *,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        transform: Callable[[T, T | None], T] | None = None,
    ) -> None:
        self._index_functions = dict(indexes or {})
        self._transform = transform
        # Guards all fields below.
        self._lock = threading.Lock()
        self._objects: dict[str, T] = {}
        # Name of index -> value -> keys; dicts serve as sets, because they keep their order.
        self._indexes: dict[str, dict[str, dict[str, None]]] = {
            name: {} for name in self._index_functions
        }
        # Keys whose stored object handlers have not seen yet -> the version that they saw last.
        self._ahead: dict[str, T | None] = {}
        # Keys whose object is the last decodable one of a history that was replaced since.
        self._void: set[str] = set()
        self._observed_version = 0

    # ------------------------------------------------------------------ for readers

    def get(self, key: str) -> T | None:
        """Return the object with this key (`namespace/name`, or `name`), or None."""
        with self._lock:
            return self._objects.get(key)

    def list(self) -> Objects[T]:
        """Return all objects, in the order in which their keys were added."""
        with self._lock:
            return [*self._objects.values()]

    def by_index(self, name: str, value: str) -> Objects[T]:
        """Return the objects with this value in the index, in the order in which they got it."""
        with self._lock:
            keys = self._indexes[name].get(value, ())
            return [self._objects[key] for key in keys]

    def index_values(self, name: str) -> Values:
        """Return the values of an index that have objects."""
        with self._lock:
            return [*self._indexes[name]]

    def has_index_value(self, name: str, value: str) -> bool:
        """Return whether there is an object with this value in an index."""
        with self._lock:
            return value in self._indexes[name]

    def __len__(self) -> int:
        return len(self._objects)

    # ------------------------------------------------------------------ for writers

    def note_written(self, written: T) -> bool:
        """Store the object that the API server returned for this process's own write.

        Returns whether it was new. Callable from any thread; harmless if repeated or late.
        """
        meta = written.metadata
        key, version = meta.key, version_number(meta.resource_version)
        new = self._prepared(key, written)
        with self._lock:
            stored = self._objects.get(key)
            if version <= self._observed_version or version <= _version(stored):
                return False
            self._put(key, stored, new)
            self._ahead.setdefault(key, stored)
            return True

    # ------------------------------------------------------------------ for the informer

    def put_observed(self, observed: T, *, force: bool = False) -> Changes[T]:
        """Store a version from a list or watch; return the changes for the handlers.

        An object with another uid under the key of an old one is a deletion and an addition. With
        `force`, the object is stored whatever its version: the server's history was replaced.
        """
        meta = observed.metadata
        key, version = meta.key, version_number(meta.resource_version)
        new = self._prepared(key, observed, force=force)
        with self._lock:
            self._observed_version = max(self._observed_version, version)
            stored = self._objects.get(key)
            seen = self._ahead.get(key, stored) if self._ahead else stored
            if stored is not None and not force:
                had = _version(stored)
                if version < had or (version == had and key not in self._ahead):
                    return []
            self._put(key, stored, new)
            if self._ahead:
                self._ahead.pop(key, None)
        if seen is not None and seen.metadata.uid != new.metadata.uid:
            return [(seen, None), (None, new)]
        return [(seen, new)]

    def remove_observed(self, key: str, uid: Uid, resource_version: str) -> Changes[T]:
        """Store a deletion from the watch; return the changes for the handlers."""
        version = version_number(resource_version)
        with self._lock:
            self._observed_version = max(self._observed_version, version)
            stored = self._objects.get(key)
            if stored is None:
                return []
            seen = self._ahead.get(key, stored)
            if stored.metadata.uid != uid and version < _version(stored):
                # An earlier object of this name was deleted; this process has created the new one.
                self._ahead[key] = None
            else:
                self._remove(key, stored)
        return [(seen, None)] if seen is not None else []

    def keep_observed(
        self, key: str, uid: Uid, resource_version: str, *, force: bool = False
    ) -> Changes[T]:
        """Record that this object exists in a version that cannot be decoded.

        The last decodable version is kept if it has the same uid; otherwise the old object is gone.
        `force` is as in `put_observed`. Returns the changes for the handlers.
        """
        with self._lock:
            stored = self._objects.get(key)
            if stored is None:
                return []
            if uid in {NO_UID, stored.metadata.uid}:
                if force:
                    self._void.add(key)
                return []
            if not force and version_number(resource_version) < _version(stored):
                return []
        return self.remove_observed(key, stored.metadata.uid, resource_version)

    def is_void(self, key: str) -> bool:
        """Return whether this object is of a replaced history, so that any version is newer."""
        return key in self._void

    def remove_vanished(
        self, listed: set[str], list_version: str, *, force: bool = False
    ) -> Iterator[Change[T]]:
        """Remove objects that a complete list did not have; yield the changes for the handlers.

        Objects that this process has created since the list was made stay, except with `force`.
        """
        version = version_number(list_version)
        with self._lock:
            vanished = [
                (key, stored)
                for key, stored in self._objects.items()
                if key not in listed and (force or key in self._void or _version(stored) <= version)
            ]
        for key, stored in vanished:
            yield from self.remove_observed(key, stored.metadata.uid, list_version)

    def advance(self, resource_version: str, *, force: bool = False) -> None:
        """Record that everything up to this version was observed (end of a list, a bookmark)."""
        version = version_number(resource_version)
        with self._lock:
            self._observed_version = version if force else max(self._observed_version, version)

    def seen_by_handlers(self) -> Objects[T]:
        """Return all objects in the versions that handlers have seen."""
        with self._lock:
            known = (self._ahead.get(key, stored) for key, stored in self._objects.items())
            return [each for each in known if each is not None]

    def seen_by_handlers_of(self, key: str) -> T | None:
        """Return one object in the version that handlers have seen, or None."""
        with self._lock:
            return self._ahead.get(key, self._objects.get(key))

    def validate(self) -> None:
        """Check the invariants; for tests."""
        with self._lock:
            known = self._objects.keys()
            assert self._ahead.keys() <= known, "ahead of an object that is gone"
            assert self._void <= known, "a void version of an object that is gone"
            for name, function in self._index_functions.items():
                want: dict[str, set[str]] = {}
                for key, stored in self._objects.items():
                    for value in function(stored):
                        want.setdefault(value, set()).add(key)
                got = {value: set(keys) for value, keys in self._indexes[name].items()}
                assert got == want, f"index {name} does not fit its objects"

    def _prepared(self, key: str, new: T, *, force: bool = False) -> T:
        """Return the object to store: the stored one if it has this version, else transformed.

        Called without the lock: one lookup in a dict needs none, and a version that has just been
        replaced serves as well.
        """
        stored = self._objects.get(key)
        if stored is None:
            return new if self._transform is None else self._transform(new, None)
        meta, had = new.metadata, stored.metadata
        same = had.uid == meta.uid and had.resource_version == meta.resource_version
        # After the server's history was replaced, the same version may have other content.
        if same and meta.resource_version and not force:
            return stored
        return new if self._transform is None else self._transform(new, stored)

    # The following methods are called with the lock held.

    def _put(self, key: str, old: T | None, new: T) -> None:
        # All values first: a function that raises must leave the store as it was.
        values = [
            (name, () if old is None else tuple(function(old)), tuple(function(new)))
            for name, function in self._index_functions.items()
        ]
        self._objects[key] = new
        self._void.discard(key)
        for name, before, after in values:
            if before == after:
                continue
            self._unindex(name, key, before)
            for value in after:
                self._indexes[name].setdefault(value, {})[key] = None

    def _remove(self, key: str, stored: T) -> None:
        del self._objects[key]
        self._ahead.pop(key, None)
        self._void.discard(key)
        for name, function in self._index_functions.items():
            self._unindex(name, key, function(stored))

    def _unindex(self, name: str, key: str, values: Iterable[str]) -> None:
        index = self._indexes[name]
        for value in values:
            keys = index.get(value)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del index[value]


def _version(stored: ApiObject | None) -> int:
    return -1 if stored is None else version_number(stored.metadata.resource_version)
