"""Which job a pod belongs to, and how little of each pod is kept."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from queue_controllers.extensions.batch_job import BatchJobAdapter
from queue_controllers.extensions.pod import PodAdapter
from queue_controllers.extensions.pod_group import PodGroupAdapter
from queue_controllers.extensions.training_job import TRAINING_JOBS
from queue_controllers.jobframework.generic_job import JobKind
from queue_controllers.jobframework.pod_template import ScheduledPod, ScheduledPodSpec
from queue_controllers.watches.pod_usage import (
    group_index,
    is_news,
    pause_of,
    pod_indexes,
    pods_of_job,
    slim_pod,
    slimmer_for,
)
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.meta import ObjectMeta, OwnerReference, Timestamp, Uid
from shared_api.objects.pod import Container, Pod, PodSpec, PodStatus
from tests.queue_controllers.pod_kit import build_pod

GROUP = "kueue.x-k8s.io/pod-group-name"
SET = "koord-queue/related-podset-name"
UNIT = "koord-queue/related-queueunit"
RAY = JobKind(key="ray", group="ray.io", version="v1", kind="RayJob", plural="rayjobs")
BATCH = JobKind(key="job", group="batch", version="v1", kind="Job", plural="jobs", owns_pods=True)
EARLY, LATE = Timestamp("2026-11-01T09:00:00Z"), Timestamp("2026-11-01T11:00:00Z")
JOB = ObjectMeta(
    name="main",
    namespace="team",
    uid=Uid("mine"),
    creation_timestamp=Timestamp("2026-11-01T10:00:00Z"),
)


def pod(
    name: str,
    *,
    owner: str = "",
    kind: str = "RayCluster",
    unit: str = "",
    created: Timestamp = LATE,
    phase: str = "Running",
    deleted: bool = False,
    job: str = "",
) -> Pod:
    owners = (OwnerReference(kind=kind, name="o", uid=Uid(owner), controller=True),)
    meta = ObjectMeta(
        name=name,
        namespace="team",
        uid=Uid(f"uid-{name}"),
        resource_version="5",
        creation_timestamp=created,
        deletion_timestamp=LATE if deleted else None,
        labels={"app": "x", "ray.io/group": "headgroup"} | ({"ray.io/job": job} if job else {}),
        annotations={UNIT: unit, "other": "y"} if unit else {"other": "y"},
        owner_references=owners if owner else (),
    )
    return Pod(
        metadata=meta, spec=PodSpec(containers=(Container(),)), status=PodStatus(phase=phase)
    )


class RayPods(BatchJobAdapter):
    """A kind that is read from labels of pods, and otherwise like any other."""

    kind = RAY
    pod_labels = ("ray.io/group", "ray.io/job")

    def job_name_of(self, labels: Mapping[str, str]) -> str:
        return labels.get("ray.io/job", "")


def found(kind: JobKind, *pods: Pod) -> list[str]:
    kinds = (RayPods(), BatchJobAdapter())
    store: IndexedStore[Pod] = IndexedStore(
        indexes=pod_indexes(kinds), transform=slimmer_for(kinds)
    )
    for each in pods:
        store.put_observed(each)
    return sorted(each.metadata.name for each in pods_of_job(store, kind, JOB, "team/main"))


def test_labels_are_kept_of_kinds_whose_pods_have_the_job_as_controller() -> None:
    role = "training.kubeflow.org/replica-type"
    of = pod("a")
    meta = msgspec.structs.replace(of.metadata, labels={role: "worker", "app": "x"})
    slim = slimmer_for(TRAINING_JOBS)(msgspec.structs.replace(of, metadata=meta), None)
    assert slim.metadata.labels == {role: "worker"}


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(pod("a", owner="mine", kind="RayJob"), True, id="the job controls it"),
        pytest.param(pod("a", owner="cluster", unit="team/main"), True, id="of a child, annotated"),
        pytest.param(pod("a", unit="team/main"), True, id="nobody's, stamped"),
        pytest.param(pod("a", owner="cluster"), False, id="of a child, not annotated"),
        pytest.param(pod("a", owner="cluster", job="main"), True, id="of a child, labeled"),
        pytest.param(pod("a", owner="cluster", job="other"), False, id="labeled for another"),
        pytest.param(
            pod("a", owner="cluster", job="main", created=EARLY), False, id="labeled, but older"
        ),
        pytest.param(pod("a", owner="other", unit="team/other"), False, id="another unit's"),
        pytest.param(
            pod("a", owner="before", kind="RayJob", unit="team/main"), False, id="an earlier job's"
        ),
        pytest.param(
            pod("a", owner="cluster", unit="team/main", created=EARLY),
            False,
            id="older than the job",
        ),
    ],
)
def test_which_job_a_pod_belongs_to(of: Pod, want: bool) -> None:
    assert (found(RAY, of) == ["a"]) is want


def test_a_pod_counts_once() -> None:
    of = pod("a", owner="mine", kind="RayJob", unit="team/main", job="main")
    assert found(RAY, of) == ["a"]


def test_pods_that_their_job_owns_are_found_by_owner_alone() -> None:
    assert found(BATCH, pod("a", owner="mine"), pod("b", unit="team/main")) == ["a"]


def test_a_trimmed_pod_keeps_what_is_counted() -> None:
    of = pod("a", owner="o", unit="team/main", deleted=True)
    slim = slim_pod(of, labels=("ray.io/group", "ray.io/job"))
    meta = slim.metadata
    assert (meta.name, meta.uid, meta.resource_version) == ("a", "uid-a", "5")
    assert meta.annotations == {UNIT: "team/main"}
    assert meta.labels == {"ray.io/group": "headgroup"}
    assert slim.is_terminating
    assert slim.status.phase == "Running"
    assert slim.spec.containers == ()


@pytest.mark.parametrize(
    ("new", "want"),
    [
        pytest.param(pod("a"), False, id="the same"),
        pytest.param(pod("a", phase="Failed"), True, id="another phase"),
        pytest.param(pod("a", deleted=True), True, id="being deleted"),
        pytest.param(None, True, id="gone"),
    ],
)
def test_news(new: Pod | None, want: bool) -> None:
    assert is_news(pod("a"), new) is want


def test_a_newer_version_of_a_pod_shares_its_owner_with_the_one_before() -> None:
    before = slim_pod(pod("a", owner="mine"))
    after = slim_pod(pod("a", owner="mine", phase="Failed"), before)
    assert after == slim_pod(pod("a", owner="mine", phase="Failed"))
    assert after.metadata.owner_references is before.metadata.owner_references
    assert slim_pod(pod("a", owner="other"), before) == slim_pod(pod("a", owner="other"))
    assert slim_pod(pod("a"), before).metadata.owner_references == ()


def test_a_large_job_is_reconciled_less_often() -> None:
    assert pause_of(1) < 0.2
    assert 0.1 < pause_of(10_000) < 1.0


class TestPodsThatAreQueued:
    KINDS = (PodAdapter(), PodGroupAdapter())

    def test_they_are_kept_with_their_requests_and_their_pod_set(self) -> None:
        slim = slimmer_for(self.KINDS)
        alone, member = build_pod("a"), build_pod("b", labels={GROUP: "g"})
        kept = slim(alone, None)
        assert kept.spec == alone.spec
        assert kept.metadata.annotations == {SET: "main"}
        assert slim(member, None).metadata.annotations[SET].startswith("pods-")
        copied = build_pod("c", annotations={SET: "another"})
        assert slim(copied, None).metadata.annotations == {SET: "main"}, "no release has written it"
        said = build_pod("c", annotations={SET: "mine"}, gated=False)
        assert msgspec.structs.replace(slim(said, None), status=said.status) == said

    def test_all_others_are_trimmed(self) -> None:
        other = pod("p", owner="x")
        assert slimmer_for(self.KINDS)(other, None) == slimmer_for(())(other, None)

    def test_they_are_found_by_their_job(self) -> None:
        pods: IndexedStore[Pod] = IndexedStore(indexes=pod_indexes(self.KINDS))
        for each in (build_pod("a"), build_pod("b", labels={GROUP: "g"}), pod("p", owner="x")):
            pods.put_observed(each)
        assert pods.index_values(group_index(self.KINDS[0])) == ["team/a"]
        assert pods.index_values(group_index(self.KINDS[1])) == ["team/g"]

    def test_changed_requests_are_news(self) -> None:
        before = build_pod("a")
        assert is_news(before, build_pod("a", gated=False))
        assert is_news(before, build_pod("a", labels={"koord-queue/queue-name": "silver"}))
        assert not is_news(before, build_pod("a"))


def test_held_pods_keep_only_claims_of_their_volumes_and_share_equal_parts() -> None:
    slim = slimmer_for((PodAdapter(),))
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    first, second = (
        slim(build_pod(name, volumes=[{"name": f"token-{name}"}, claim]), None)
        for name in ("one", "two")
    )
    assert isinstance(first.spec, ScheduledPodSpec)
    assert isinstance(second.spec, ScheduledPodSpec)
    assert [each.name for each in first.spec.volumes] == ["data"]
    assert first.spec.volumes == second.spec.volumes
    assert first.metadata.name == "one"


def test_held_pods_of_one_template_share_its_spec() -> None:
    slim = slimmer_for((PodAdapter(),))
    body = {
        "metadata": {"name": "one", "labels": {"koord-queue/queue-name": "gold"}},
        "spec": {"containers": [{"name": "c"}], "volumes": [{"name": "scratch"}]},
    }
    one, two = (slim(msgspec.convert(body, ScheduledPod), None) for _ in range(2))
    assert one.spec.containers
    assert one.spec is two.spec
