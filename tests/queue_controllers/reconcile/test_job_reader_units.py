"""Which unit belongs to which job."""

from __future__ import annotations

import msgspec

from queue_controllers.decision.queue_unit_builder import CONTROLLERS
from queue_controllers.jobframework.generic_job import JobKind
from queue_controllers.reconcile.job_reader import (
    UnitsOfJob,
    find_units,
    is_name_taken,
    unit_indexes,
)
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.meta import ObjectMeta, OwnerReference, Timestamp, Uid
from shared_api.objects.queue_unit import (
    ConsumerReference,
    QueueUnit,
    QueueUnitSpec,
    QueueUnitStatus,
)
from shared_api.well_known_labels import JOB_CREATED_AT, MANAGED_BY

JOB = JobKind(key="job", group="batch", version="v1", kind="Job", plural="jobs")
OURS = {MANAGED_BY: CONTROLLERS, JOB_CREATED_AT: "x"}


def unit(
    name: str,
    uid: str = "",
    *,
    kind: str = "Job",
    api_version: str = "batch/v1",
    ours: bool = True,
    owner: str = "",
    phase: str = "Enqueued",
    created: str = "2026-01-01",
) -> QueueUnit:
    ref = ConsumerReference(api_version=api_version, kind=kind, name="main", uid=Uid(uid))
    meta = ObjectMeta(
        name=name,
        namespace="team",
        uid=Uid(f"qu-{name}"),
        resource_version="1",
        creation_timestamp=Timestamp(created),
        annotations=OURS if ours else {},
        owner_references=(OwnerReference(uid=Uid(owner)),) if owner else (),
    )
    spec = QueueUnitSpec(consumer_ref=ref)
    return QueueUnit(metadata=meta, spec=spec, status=QueueUnitStatus(phase=phase))


def store_of(*units: QueueUnit) -> IndexedStore[QueueUnit]:
    store: IndexedStore[QueueUnit] = IndexedStore(indexes=unit_indexes())
    for each in units:
        store.put_observed(each)
    return store


def found(*units: QueueUnit, uid: str | None = "u1") -> UnitsOfJob:
    return find_units(store_of(*units), JOB, "team/main", None if uid is None else Uid(uid))


def test_a_unit_is_found_by_the_uid_of_its_consumer() -> None:
    mine = unit("odd-name", "u1")
    assert found(mine, unit("x", "u1", kind="Workflow"), unit("y", "u1", api_version="x/v1")) == (
        UnitsOfJob(own=mine)
    )


def test_another_version_of_the_same_group_is_the_same_kind() -> None:
    mine = unit("main", "u1", api_version="batch/v2")
    assert found(mine).own == mine


def test_a_unit_of_an_earlier_job_is_an_orphan() -> None:
    old = unit("main", "u0")
    assert found(old) == UnitsOfJob(orphans=(old,))
    assert found(old, uid=None) == UnitsOfJob(orphans=(old,))


def test_a_unit_made_by_hand_is_no_orphan() -> None:
    assert found(unit("main", "u0", ours=False)) == UnitsOfJob()


def test_a_unit_without_uid_is_the_jobs_if_no_other_owns_it() -> None:
    by_hand = unit("main", ours=False)
    assert found(by_hand).own == by_hand
    upstreams = unit("main", ours=False, owner="u1")
    assert found(upstreams).own == upstreams
    assert found(unit("main", ours=False, owner="u0")) == UnitsOfJob()
    assert found(by_hand, uid=None) == UnitsOfJob()


def test_of_two_units_the_admitted_one_counts_else_the_older() -> None:
    older, newer = unit("a", "u1"), unit("b", "u1", created="2026-02-01")
    assert found(newer, older) == UnitsOfJob(own=older, surplus=(newer,))
    booked = unit("b", "u1", created="2026-02-01", phase="Running")
    assert found(booked, older) == UnitsOfJob(own=booked, surplus=(older,))


def test_an_admitted_surplus_unit_is_not_deleted() -> None:
    one, two = unit("a", "u1", phase="Running"), unit("b", "u1", phase="Running")
    assert found(one, two) == UnitsOfJob(own=one)


def test_a_unit_in_another_namespace_does_not_count() -> None:
    ref = ConsumerReference(api_version="batch/v1", kind="Job", namespace="elsewhere", name="main")
    for consumer in (ref, msgspec.structs.replace(ref, uid=Uid("u1"))):
        spec = QueueUnitSpec(consumer_ref=consumer)
        foreign = msgspec.structs.replace(unit("main", phase="Running"), spec=spec)
        store = store_of(foreign)
        assert find_units(store, JOB, "elsewhere/main", Uid("u1")) == UnitsOfJob()
        assert find_units(store, JOB, "team/main", Uid("u1")) == UnitsOfJob()


def test_a_name_is_taken_by_any_unit_that_has_it() -> None:
    store = store_of(unit("main", "u0"))
    assert is_name_taken(store, "team", "main")
    assert not is_name_taken(store, "other", "main")
