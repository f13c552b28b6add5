"""Which job a pod is certainly of, and what that states."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from queue_controllers.decision.owners import Above
from queue_controllers.extension_list import find_extensions
from queue_controllers.jobframework.generic_job import GenericJob
from queue_controllers.lost_pods.stated_times import MAX_OWNERS, StatedTimes
from queue_controllers.reconcile.job_reader import unit_indexes
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.meta import ObjectMeta, OwnerReference, Uid
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import ConsumerReference, QueueUnit, QueueUnitSpec
from shared_api.well_known_labels import DELETE_LOST_PODS_AFTER
from tests.queue_controllers.pod_kit import build_pod

ASKS = {DELETE_LOST_PODS_AFTER: "90s"}
EXTENSIONS = find_extensions()


class Kind:
    """The jobs of one kind."""

    def __init__(self, key: str, *jobs: Any) -> None:
        self.adapter: GenericJob[Any] = EXTENSIONS[key]
        self._jobs = {each.metadata.key: each for each in jobs}

    def job_at(self, key: str) -> Any | None:
        return self._jobs.get(key)


def refer(kind: str, name: str, api_version: str = "batch/v1", uid: str = "") -> OwnerReference:
    return OwnerReference(
        api_version=api_version,
        kind=kind,
        name=name,
        uid=Uid(uid or f"uid-{name}"),
        controller=True,
    )


def meta(name: str, *owners: OwnerReference, **fields: Any) -> ObjectMeta:
    return ObjectMeta(
        name=name, namespace="team", uid=Uid(f"uid-{name}"), owner_references=owners, **fields
    )


def job(key: str, *owners: OwnerReference, name: str = "main", **fields: Any) -> Any:
    body = {"metadata": msgspec.to_builtins(meta(name, *owners, **fields))}
    return msgspec.convert(body, EXTENSIONS[key].object_type)


def unit_of(kind: str, name: str, api_version: str = "batch/v1") -> QueueUnit:
    consumer = ConsumerReference(
        api_version=api_version, kind=kind, name=name, namespace="team", uid=Uid(f"uid-{name}")
    )
    return QueueUnit(metadata=meta(f"unit-{name}"), spec=QueueUnitSpec(consumer_ref=consumer))


JOB_SET = "jobset.x-k8s.io/v1alpha2"
MAIN = unit_of("Job", "main")


def find(
    pod: Pod,
    *kinds: Kind,
    units: Iterable[QueueUnit] = (MAIN,),
    above: dict[str, OwnerReference] | None = None,
) -> tuple[float, str] | None:
    """Return the time that is found, and the name of what states it."""
    store: IndexedStore[QueueUnit] = IndexedStore(indexes=unit_indexes(by_namespace=False))
    for each in units:
        store.put_observed(each)
    chain = above or {}
    stated = StatedTimes(kinds, store, lambda _, owner: Above(owner=chain.get(owner.name)))
    found = stated.find(pod)
    return None if found is None else (found.seconds, found.stated_by.name)


def owned(*owners: OwnerReference, **fields: Any) -> Pod:
    return Pod(metadata=meta("pod", *owners, **fields))


def test_the_job_that_controls_the_pod_counts() -> None:
    assert find(owned(refer("Job", "main")), Kind("job", job("job", annotations=ASKS))) == (
        90.0,
        "main",
    )


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(owned(), id="no owner"),
        pytest.param(owned(annotations=ASKS), id="its own annotation, of a pod that is no job"),
        pytest.param(
            owned(annotations={"koord-queue/related-queueunit": "team/unit-main"}),
            id="an annotation that names the unit",
        ),
        pytest.param(
            owned(labels={"job-name": "main", "batch.kubernetes.io/controller-uid": "uid-main"}),
            id="labels",
        ),
        pytest.param(owned(refer("Job", "main", uid="uid-old")), id="an earlier job of the name"),
        pytest.param(owned(refer("Job", "main", "example.com/v1")), id="a kind of another group"),
        pytest.param(
            owned(msgspec.structs.replace(refer("Job", "main"), controller=None)),
            id="an owner that is no controller",
        ),
    ],
)
def test_nothing_else_proves_that_a_pod_is_of_a_job(pod: Pod) -> None:
    assert find(pod, Kind("job", job("job", annotations=ASKS))) is None


def test_a_job_without_a_unit_is_not_the_queues() -> None:
    pod, jobs = owned(refer("Job", "main")), Kind("job", job("job", annotations=ASKS))
    assert find(pod, jobs, units=()) is None
    assert find(pod, jobs, units=[unit_of("Job", "other")]) is None


def test_the_job_above_counts_where_the_nearer_one_has_no_unit() -> None:
    top = Kind("jobset", job("jobset", name="set", annotations=ASKS))
    child = job("job", refer("JobSet", "set", JOB_SET), name="child", annotations=ASKS)
    unit = unit_of("JobSet", "set", JOB_SET)
    assert find(owned(refer("Job", "child")), Kind("job", child), top, units=[unit]) == (
        90.0,
        "set",
    )


def test_owners_in_between_are_asked_about() -> None:
    top = Kind("jobset", job("jobset", name="set", annotations=ASKS))
    unit = unit_of("JobSet", "set", JOB_SET)
    pod = owned(refer("Job", "child"))
    chain = {"child": refer("JobSet", "set", JOB_SET)}
    assert find(pod, top, units=[unit], above=chain) == (90.0, "set")
    assert find(pod, top, units=[unit]) is None, "it may not be read"


def test_owners_that_own_each_other_come_to_an_end() -> None:
    names = [f"o{number}" for number in range(MAX_OWNERS + 1)]
    chain = {name: refer("Thing", after) for name, after in pairwise(names)}
    chain[names[-1]] = refer("Thing", names[0])
    assert find(owned(refer("Thing", names[0])), Kind("job"), above=chain) is None


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param(ASKS, (90.0, "solo"), id="it asks"),
        pytest.param({}, None, id="it does not"),
    ],
)
def test_a_queued_pod_states_it_itself(
    annotations: dict[str, str], want: tuple[float, str] | None
) -> None:
    assert find(build_pod("solo", annotations=annotations), Kind("pod"), units=()) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("60", 60.0),
        ("1m", 60.0),
        ("59s", None),
        ("0", None),
        ("-5m", None),
        ("", None),
        ("x", None),
    ],
)
def test_which_times_count(text: str, want: float | None) -> None:
    jobs = Kind("job", job("job", annotations={DELETE_LOST_PODS_AFTER: text}))
    found = find(owned(refer("Job", "main")), jobs)
    assert found == (None if want is None else (want, "main"))
