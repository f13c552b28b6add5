"""The objects that an act is about: read, and written as the act says."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from koord_queue.acts.change import AnyObject, Change, Json, On, Target
from koord_queue.acts.on_units import MADE_OF_PODS
from koord_queue.errors import CommandError
from koord_queue.reach.dry_run import DryRuns
from koord_queue.reach.errors import Missing, NotServed, Refused
from koord_queue.reach.media_types import MERGE_PATCH
from koord_queue.reach.resources import (
    ELASTIC_QUOTAS,
    QUEUE_UNITS,
    QUEUES,
    ItemList,
    Resource,
    Resources,
)
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit

if TYPE_CHECKING:
    from koord_queue.reach.cluster import Cluster, Query

ReadT = TypeVar("ReadT", QueueUnit, Queue, AnyObject)

FIELD_MANAGER: Final = "koord-queue-cli"

INSTEAD: Final = {
    On.UNIT_STATUS: "`deactivate`, and later `activate`, do it with the right to patch the job.",
}
"""What a caller without a right can do, by what is to be changed."""


class Place(NamedTuple):
    """One object in the API.

    Attributes:
        shown: As kubectl prints it: `job.batch/train`.
        version: Its resourceVersion when it was read; "" if that is not known.
    """

    resource: Resource
    namespace: str
    name: str
    shown: str
    version: str = ""


class UnitTarget(NamedTuple):
    """A unit and its job, and where they are."""

    target: Target
    unit: Place
    job: Place | None

    def place(self, on: On) -> Place:
        """Return the object that a change is for."""
        if on is On.JOB:
            assert self.job is not None, "only a job that was read is changed"
            return self.job
        return self.unit


class QueueTarget(NamedTuple):
    """A queue, and where it is."""

    queue: Queue
    place: Place


class Targets:
    """Reads and writes what acts are about.

    Args:
        cluster: The API server.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._resources = Resources(cluster)

    def unit(self, namespace: str, name: str, named: str) -> UnitTarget:
        """Return a unit with its job.

        Raises:
            CommandError: There is none, or it or its job may not be read.
        """
        unit = self.read_unit(namespace, name)
        place = _place(QUEUE_UNITS, "QueueUnit", unit)
        job, job_place = self._job_of(unit) or (None, None)
        return UnitTarget(Target(named=named, unit=unit, job=job), place, job_place)

    def read_unit(self, namespace: str, name: str) -> QueueUnit:
        """Return a unit as it is now.

        Raises:
            CommandError: There is none, or it may not be read.
        """
        return self._read(QUEUE_UNITS.path(namespace, name), QueueUnit)

    def queue(self, namespace: str, name: str) -> QueueTarget:
        """Return a queue.

        Raises:
            Missing: There is none of that name.
            CommandError: It may not be read.
        """
        try:
            queue = self._read(QUEUES.path(namespace, name), Queue)
        except Missing as error:
            raise Missing(
                f"there is no queue {name} in namespace {namespace}",
                "`koord-queue queues` lists them; --system-namespace says where they are.",
            ) from error
        return QueueTarget(queue, _place(QUEUES, "Queue", queue))

    def quota(self, name: str) -> Place:
        """Return the quota that counts among those of a name: the oldest.

        Raises:
            CommandError: There is none, or quotas may not be listed.
        """
        path = ELASTIC_QUOTAS.path("")
        query = (("fieldSelector", f"metadata.name={name}"),)
        body = self._cluster.get(path, query)
        found = msgspec.json.decode(body, type=ItemList[ElasticQuota]).items
        if not found:
            raise CommandError(f"the queue follows quota {name}, which is gone")
        oldest = min(
            found, key=lambda each: (each.metadata.creation_timestamp, each.metadata.namespace)
        )
        return _place(ELASTIC_QUOTAS, "ElasticQuota", oldest)

    def write(self, place: Place, change: Change, *, dry_run: bool) -> None:
        """Send a change.

        Raises:
            Conflicting: The object has changed since it was read, and that matters.
            Refused: A right is missing; the message says which one.
            CommandError: The server refuses it for another reason.
        """
        patch: Json = change.patch
        if change.is_guarded:
            guard = {"resourceVersion": place.version}
            patch = {**patch, "metadata": {**patch.get("metadata", {}), **guard}}
        subresource = "status" if change.on is On.UNIT_STATUS else ""
        query: Query = (("fieldManager", FIELD_MANAGER), *((("dryRun", "All"),) if dry_run else ()))
        path = place.resource.path(place.namespace, place.name, subresource)
        if dry_run and self._dry_runs.why_not(place.resource):
            return
        try:
            self._cluster.send("PATCH", path, msgspec.json.encode(patch), MERGE_PATCH, query)
        except Refused as error:
            raise _without_right(place, change.on, subresource, error) from error

    @cached_property
    def _dry_runs(self) -> DryRuns:
        return DryRuns(self._cluster)

    def _job_of(self, unit: QueueUnit) -> tuple[AnyObject, Place] | None:
        consumer = unit.spec.consumer_ref
        if consumer is None or consumer.kind in MADE_OF_PODS:
            return None
        namespace = unit.metadata.namespace
        try:
            resource = self._resources.find(consumer.api_version, consumer.kind)
            job = self._read(resource.path(namespace, consumer.name), AnyObject)
        except (Missing, NotServed):
            return None
        if consumer.uid and job.metadata.uid != consumer.uid:
            return None  # another one of its name, created since
        return job, _place(resource, consumer.kind, job)

    def _read(self, path: str, kind: type[ReadT]) -> ReadT:
        body = self._cluster.get(path)
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError as error:
            raise CommandError(f"{path} cannot be read: {error}") from error


def _place(
    resource: Resource, kind: str, read: QueueUnit | Queue | ElasticQuota | AnyObject
) -> Place:
    meta = read.metadata
    shown = resource.shown(kind, meta.name)
    return Place(resource, meta.namespace, meta.name, shown, meta.resource_version)


def _without_right(place: Place, on: On, subresource: str, error: Refused) -> Refused:
    """Return which right is missing; a refusal for another reason stays as it is."""
    if "cannot patch resource" not in error.message:
        return error
    what = f"{place.resource.plural}/{subresource}" if subresource else place.resource.plural
    group = f" ({place.resource.group})" if place.resource.group else ""
    return Refused(
        f"{place.shown} is unchanged: you lack the right to patch {what}{group}"
        f" in namespace {place.namespace}",
        INSTEAD.get(on, "An administrator can grant it with a Role."),
    )
