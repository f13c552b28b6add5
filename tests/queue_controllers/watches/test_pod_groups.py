"""Jobs that consist of pods, as they are found in the pod cache."""

from __future__ import annotations

from queue_controllers.extensions.pod_group import PodGroupAdapter
from queue_controllers.jobframework.pod_template import ScheduledPod
from queue_controllers.watches.pod_groups import PodGroupCache
from queue_controllers.watches.pod_usage import pod_indexes
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.pod import Pod
from tests.queue_controllers.pod_kit import build_pod

GROUPS = PodGroupAdapter()


def member(name: str, group: str = "g") -> ScheduledPod:
    return build_pod(name, labels={"kueue.x-k8s.io/pod-group-name": group})


def pod_store() -> IndexedStore[Pod]:
    return IndexedStore(indexes=pod_indexes([GROUPS]))


def cache(*pods: ScheduledPod) -> PodGroupCache:
    store = pod_store()
    for pod in pods:
        store.put_observed(pod)
    return PodGroupCache(GROUPS, store)


def test_a_job_exists_while_a_pod_of_it_does() -> None:
    groups = cache(member("a"), member("b"), member("c", "h"), build_pod("alone"))
    assert groups.key_of(member("a")) == "team/g"
    assert groups.key_of(build_pod("alone")) == ""
    found = groups.get("team/g")
    assert found is not None
    assert [pod.metadata.name for pod in found.pods] == ["a", "b"]
    assert sorted(each.metadata.name for each in groups.list()) == ["g", "h"]
    assert len(groups) == 2
    assert groups.get("team/other") is None
    gone = groups.last_of("team/x", member("z", "x"))
    assert gone.uid == GROUPS.gather("x", [member("z", "x")]).metadata.uid


def test_a_deletion_is_not_remembered_for_a_pod_whose_end_was_watched() -> None:
    """Else each would be remembered for as long as the process lives."""
    pod, store = member("a"), pod_store()
    groups = PodGroupCache(GROUPS, store)
    groups.note_deleted(pod)
    store.put_observed(pod)
    found = groups.get("team/g")
    assert found is not None
    assert not found.first.is_terminating


def test_own_deletions_count_before_the_watch_reports_them() -> None:
    pod = member("a")
    groups = cache(pod, member("b"))
    groups.note_deleted(pod)
    found = groups.get("team/g")
    assert found is not None
    assert {p.metadata.name: p.is_terminating for p in found.pods} == {"a": True, "b": False}
    groups.forget(pod)
    again = groups.get("team/g")
    assert again is not None
    assert not any(p.is_terminating for p in again.pods)
