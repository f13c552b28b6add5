"""Which unit a pod is a part of: by what the queue has written on it, its group, or its owners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from koord_queue.reach.errors import Missing, NotServed, Refused
from koord_queue.reach.named import Owned
from koord_queue.reach.resources import PODS, Resources
from shared_api.objects.meta import ObjectMeta, OwnerReference
from shared_api.well_known_labels import (
    KOORDINATOR_POD_GROUP,
    KUEUE_POD_GROUP,
    LWS_GROUP,
    LWS_NAME,
    PLUGINS_POD_GROUP,
    RELATED_QUEUE_UNIT,
    read_annotation,
)

if TYPE_CHECKING:
    from koord_queue.reach.cluster import Cluster

MOST_OWNERS: Final = 4
"""Most owners above a pod that are looked at: a TrainJob has a JobSet, that a Job, that a pod."""

_GROUPS: Final = (KUEUE_POD_GROUP, *KOORDINATOR_POD_GROUP, PLUGINS_POD_GROUP)


class Whole(NamedTuple):
    """What a pod is a part of.

    Attributes:
        kind: As kubectl takes it: `job.batch`; "" if it is known by its unit alone.
        name: The name of the job, set or group.
        unit: Name of its unit; "" if it has none.
    """

    kind: str
    name: str
    unit: str

    @property
    def shown(self) -> str:
        """The name that users type: `job/train`."""
        return f"{self.kind.partition('.')[0]}/{self.name}" if self.kind else f"unit/{self.unit}"


class _Object(msgspec.Struct):
    metadata: ObjectMeta


def find_whole(cluster: Cluster, units: Sequence[Owned], namespace: str, name: str) -> Whole | None:
    """Return what a pod is a part of; None if it is a part of nothing.

    Args:
        cluster: The API server.
        units: All of the namespace.
        namespace: The namespace of the pod.
        name: The pod's.

    Raises:
        CommandError: There is no such pod, or it may not be read.
    """
    pod = _read(cluster.get(PODS.path(namespace, name)))
    related = (read_annotation(pod.annotations, RELATED_QUEUE_UNIT) or "").partition("/")
    for each in units:
        if related[::2] == (namespace, each.unit):
            return Whole(_kind(each.kind, each.group), each.job, each.unit)
    for kind, group in _groups_of(pod):
        for each in units:
            if (each.kind, each.job) == (kind, group):
                return Whole(kind.lower(), group, each.unit)
    return _of_owners(cluster, units, pod) or next(
        (Whole(kind.lower(), group, "") for kind, group in _groups_of(pod)), None
    )


def _of_owners(cluster: Cluster, units: Sequence[Owned], pod: ObjectMeta) -> Whole | None:
    """Return the nearest owner that has a unit, or else the last that is known.

    The pods of a ReplicaSet are queued one by one: each is its own.
    """
    last, first = None, pod.controller_owner
    if first is not None and (first.kind, first.api_version) == ("ReplicaSet", "apps/v1"):
        return None
    for owner in _owners(Resources(cluster), pod):
        group = owner.api_version.rpartition("/")[0]
        last = Whole(_kind(owner.kind, group), owner.name, "")
        for each in units:
            if (each.kind, each.group, each.job) == (owner.kind, group, owner.name):
                return last._replace(unit=each.unit)
    return last


def _owners(resources: Resources, meta: ObjectMeta) -> Iterator[OwnerReference]:
    """Yield the controller owners above an object, as far as they may be read."""
    for _ in range(MOST_OWNERS):
        owner = meta.controller_owner
        if owner is None:
            return
        yield owner
        try:
            resource = resources.find(owner.api_version, owner.kind)
            meta = _read(resources.cluster.get(resource.path(meta.namespace, owner.name)))
        except (Missing, NotServed, Refused):
            return


def _groups_of(pod: ObjectMeta) -> Iterator[tuple[str, str]]:
    """Yield kind and name of the groups that a pod's labels name."""
    name, index = pod.labels.get(LWS_NAME), pod.labels.get(LWS_GROUP)
    if name and index:
        yield "LeaderWorkerSet", f"{name}-{index}"
    for key in _GROUPS:
        if group := pod.labels.get(key) or pod.annotations.get(key):
            yield "PodGroup", group


def _kind(kind: str, group: str) -> str:
    return f"{kind.lower()}.{group}" if group else kind.lower()


def _read(body: bytes) -> ObjectMeta:
    return msgspec.json.decode(body, type=_Object).metadata
