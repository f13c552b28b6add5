"""The objects that limits come from, as they were last seen: quotas and nodes. Pure.

A repeated fact is no change. A question to a fork ("what if this max were higher?") edits one of
these objects, and tells the fork.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, TypeVar

from queue_scheduler.framework.extension_points import QuotaSource
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.node import Node

LimitObject: TypeAlias = ElasticQuota | QuotaSource | Node
KindT = TypeVar("KindT", bound=LimitObject)


class ClusterObjects:
    """The newest object of each quota, quota source and node."""

    def __init__(self) -> None:
        self._objects: dict[tuple[type[LimitObject], str], LimitObject] = {}

    def put(self, thing: LimitObject) -> bool:
        """Take an object; return whether it differs from the one before."""
        place = (type(thing), thing.metadata.key)
        if self._objects.get(place) == thing:
            return False
        self._objects[place] = thing
        return True

    def drop(self, kind: type[LimitObject], key: str) -> bool:
        """Forget a deleted object; return whether it was known."""
        return self._objects.pop((kind, key), None) is not None

    def of_kind(self, kind: type[KindT]) -> Iterator[KindT]:
        """Iterate over the objects of a kind."""
        return (thing for thing in self._objects.values() if isinstance(thing, kind))

    def copy(self) -> ClusterObjects:
        """Return an independent copy; objects are never changed."""
        twin = ClusterObjects()
        twin._objects = dict(self._objects)
        return twin
