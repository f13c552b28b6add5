"""The pods at the queue's gate, by their job."""

from __future__ import annotations

from msgspec.structs import replace

from queue_scheduler.cache.held_pods import HeldPods, job_of_group, read_held
from shared_api.objects.meta import OwnerReference, Uid
from shared_api.objects.pod import Pod, PodSchedulingGate, PodStatus
from tests.properties.engine_kit import build_pod

GATE = PodSchedulingGate(name="koord-queue/admission")


def held(name: str, *, cpu: int | str = 1, quota: str = "a", job: str = "set") -> Pod:
    pod = build_pod(name, cpu=cpu, quota=quota, node="")
    owner = OwnerReference(kind="StatefulSet", uid=Uid(job), controller=True)
    return replace(
        pod,
        metadata=replace(pod.metadata, owner_references=(owner,)),
        spec=replace(pod.spec, scheduling_gates=(GATE,)),
        status=PodStatus(phase="Pending"),
    )


def reported(*pods: Pod) -> HeldPods:
    known = HeldPods()
    for pod in pods:
        known.on_pod(pod)
    return known


def amounts(known: HeldPods, job: str = "set") -> dict[str, dict[str, int]]:
    return {key: each for key, (_, _, each) in known.groups_of(Uid(job)).items()}


def test_pods_of_one_job_and_quota_are_one_group() -> None:
    known = reported(held("p"), held("q", cpu=2), held("r", quota="b"), held("s", job="other"))
    assert amounts(known) == {"held:set:ns:a": {"cpu": 3000}, "held:set:ns:b": {"cpu": 1000}}
    assert [job_of_group(key) for key in amounts(known)] == ["set", "set"]
    assert known.take_changed() == ["set", "other"]
    assert not known.has_changed


def test_a_uid_with_a_colon_is_read_back() -> None:
    known = reported(held("p", job="x:y:z"))
    assert [job_of_group(key) for key in amounts(known, "x:y:z")] == ["x:y:z"]


def test_a_released_pod_is_held_no_more() -> None:
    pod = held("p")
    known = reported(pod, replace(pod, spec=replace(pod.spec, scheduling_gates=())))
    assert (len(known), amounts(known)) == (0, {})
    assert known.take_changed() == ["set"]


def test_a_deleted_one_is_forgotten_and_its_successor_is_not() -> None:
    pod = held("p")
    successor = replace(pod, metadata=replace(pod.metadata, uid=Uid("new")))
    known = reported(pod, successor)
    known.on_pod_gone(pod)
    assert known.pods_of(Uid("set")) == ["ns/p"]
    known.on_pod_gone(successor)
    assert len(known) == 0


def test_a_repeated_pod_changes_nothing() -> None:
    known = reported(held("p"))
    known.take_changed()
    known.on_pod(held("p"))
    assert not known.has_changed


def test_a_pod_that_is_none_of_the_gates_is_not_held() -> None:
    pod = held("p")
    assert read_held(build_pod("p")) is None
    assert read_held(replace(pod, status=PodStatus(phase="Failed"))) is None
    others = (PodSchedulingGate(name="example.com/hold"),)
    assert read_held(replace(pod, spec=replace(pod.spec, scheduling_gates=others))) is None


def test_requests_that_cannot_be_read_count_as_none() -> None:
    assert amounts(reported(held("p", cpu="many"))) == {"held:set:ns:a": {}}


def test_a_fork_is_independent() -> None:
    known = reported(held("p"))
    twin = known.fork()
    twin.forget("ns/p")
    assert (len(known), len(twin)) == (1, 0)
