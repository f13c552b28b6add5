"""What is known of one key: the job, its unit, its pods, from the caches of this process."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from queue_controllers.decision.job_ownership import ClusterContext
from queue_controllers.decision.owners import Owners
from queue_controllers.decision.queue_unit_builder import is_created_by_us
from queue_controllers.jobframework.generic_job import (
    GenericJob,
    JobFacts,
    JobKind,
    JobT,
    OtherObject,
)
from shared_api.informer.indexed_store import IndexedStore, IndexFunction
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import ConsumerReference, QueueUnit
from shared_api.queue_unit_phases import occupies_quota

BY_CONSUMER_NAME: Final = "consumer-name"
BY_NAMESPACE: Final = "namespace"


class JobCache(Protocol[JobT]):
    """The jobs of a kind, by key."""

    def get(self, key: str) -> JobT | None:
        """Return the job with this key (`namespace/name`)."""
        ...

    def list(self) -> builtins.list[JobT]:
        """Return all jobs."""
        ...

    def __len__(self) -> int:
        """Return how many jobs there are."""
        ...


class PodLookup(Protocol):
    """The pods of a job."""

    def __call__(self, kind: JobKind, job: ObjectMeta, unit_key: str) -> list[Pod]:
        """Return the pods of one job, finished ones included."""
        ...


class ClusterContextLookup(Protocol):
    """What is known outside of jobs."""

    def __call__(self, namespace: str) -> ClusterContext:
        """Return what is known about a namespace."""
        ...


class OwnerLookup(Protocol):
    """What is known about owners."""

    def __call__(self, namespace: str) -> Owners:
        """Return the answers about the owners of jobs in a namespace."""
        ...


class RelatedObjectLookup(Protocol):
    """What other objects say about a job."""

    def __call__(self, job: ObjectMeta, other: OtherObject) -> Any | None:  # noqa: ANN401 - of any kind
        """Return the object, None if it does not exist; may ask the API server.

        Raises ApiFailure.
        """
        ...


class EventLookup(Protocol):
    """What other programs say about a job in events."""

    def __call__(self, job: ObjectMeta, since: datetime | None) -> str:
        """Return the newest warning about a job that is not from before `since`, or "".

        Asks the API server, and never raises: the caller continues without an answer.
        """
        ...


class PreviewRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose pods are to be previewed."""

    adapter: GenericJob[Any]
    job: JobFacts
    """With its pod sets as they are written."""
    around: ClusterContext
    has_unit: bool
    wake: Callable[[str], None]
    """Called with the job's key when a new answer has arrived."""


class JobPreviews(Protocol):
    """Previews the pods of jobs, without having them created."""

    def __call__(self, request: PreviewRequest) -> JobFacts:
        """Return the facts of the job with its pod sets as its pods will be; never waits."""
        ...


class UnitsOfJob(msgspec.Struct, frozen=True):
    """The units that name one job, by uid or by name."""

    own: QueueUnit | None = None
    """The one that counts: the charged one, else the oldest."""
    surplus: tuple[QueueUnit, ...] = ()
    """Further units of the same job, made by this program: one job, one unit."""
    orphans: tuple[QueueUnit, ...] = ()
    """Units of an earlier job of this name, created by this program."""


def unit_indexes(*, by_namespace: bool = False) -> Mapping[str, IndexFunction[QueueUnit]]:
    """Return the indexes of the unit cache that this module uses.

    `by_namespace`: for `has_units` as well; it costs an entry per unit.
    """
    indexes: dict[str, IndexFunction[QueueUnit]] = {BY_CONSUMER_NAME: _consumer_names_of}
    if by_namespace:
        indexes[BY_NAMESPACE] = _namespaces_of
    return indexes


def has_units(units: IndexedStore[QueueUnit], namespace: str) -> bool:
    """Return whether there is a unit in a namespace."""
    return bool(units.by_index(BY_NAMESPACE, namespace))


def find_units(
    units: IndexedStore[QueueUnit], kind: JobKind, key: str, uid: Uid | None
) -> UnitsOfJob:
    """Return the units of the job with this key and uid (None: there is no such job).

    A unit is found by its consumer's uid. A unit that was created without one (by hand, by
    upstream) counts if it has the job as owner, or if it names the job in full and has no owner.
    One in another namespace never counts: units there must not affect jobs here.
    """
    named = units.by_index(BY_CONSUMER_NAME, _name_value(kind.group, kind.kind, key))
    mine: dict[str, QueueUnit] = {}
    orphans = []
    for unit in named:
        consumer = unit.spec.consumer_ref
        assert consumer is not None
        if uid is not None and (consumer.uid == uid or _is_nameless(unit, consumer, uid)):
            mine[unit.metadata.uid] = unit
        elif consumer.uid and consumer.uid != uid and is_created_by_us(unit):
            orphans.append(unit)
    if not mine:
        return UnitsOfJob(orphans=tuple(orphans))
    own, *others = sorted(mine.values(), key=_rank)
    surplus = tuple(each for each in others if is_created_by_us(each) and not occupies_quota(each))
    return UnitsOfJob(own=own, surplus=surplus, orphans=tuple(orphans))


def is_name_taken(units: IndexedStore[QueueUnit], namespace: str, name: str) -> bool:
    """Return whether a job for which no unit was found must give its unit another name."""
    return units.get(f"{namespace}/{name}") is not None


def key_of_consumer(consumer: ConsumerReference, namespace: str) -> str:
    """Return the key of the job that a unit in this namespace names; "" for one in another."""
    return f"{namespace}/{consumer.name}" if consumer.namespace in {"", namespace} else ""


def consumer_group(consumer: ConsumerReference) -> str:
    """Return the API group of the job, whichever version the unit names."""
    group, slash, _ = consumer.api_version.partition("/")
    return group if slash else ""


def _rank(unit: QueueUnit) -> tuple[bool, str, str]:
    meta = unit.metadata
    return (not occupies_quota(unit), meta.creation_timestamp, meta.name)


def _is_nameless(unit: QueueUnit, consumer: ConsumerReference, uid: Uid) -> bool:
    """Return whether a unit without a consumer uid is this job's: owned by it, or by nothing."""
    if consumer.uid:
        return False
    owners = [owner.uid for owner in unit.metadata.owner_references]
    return uid in owners or not owners


def _consumer_names_of(unit: QueueUnit) -> tuple[str, ...]:
    consumer = unit.spec.consumer_ref
    if consumer is None or not consumer.name:
        return ()
    key = key_of_consumer(consumer, unit.metadata.namespace)
    return (_name_value(consumer_group(consumer), consumer.kind, key),) if key else ()


def _namespaces_of(unit: QueueUnit) -> tuple[str, ...]:
    return (unit.metadata.namespace,)


def _name_value(group: str, kind: str, key: str) -> str:
    return f"{group}/{kind}/{key}"
