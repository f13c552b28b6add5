"""What is kept of the objects that say how many pods jobs have."""

from __future__ import annotations

import msgspec
import pytest

from queue_controllers.extensions.leader_worker_set import SETS, SizedLeaderWorkerSet
from queue_controllers.extensions.stateful_set import StatefulSetAdapter, StatefulSetObject
from queue_controllers.watches.job_sizes import slim_size
from queue_controllers.watches.pod_groups import PodGroupCache
from queue_controllers.watches.pod_usage import pod_indexes
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.pod import Pod
from tests.queue_controllers.pod_kit import build_pod

OBJECT = {
    "metadata": {
        "name": "llm",
        "namespace": "team",
        "uid": "u",
        "resourceVersion": "7",
        "generation": 3,
        "labels": {"a": "b"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x" * 9000},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {
        "replicas": 4,
        "leaderWorkerTemplate": {"size": 5, "workerTemplate": {"spec": {"containers": [{}]}}},
    },
}


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        pytest.param(StatefulSetObject, {"replicas": 4}, id="StatefulSet"),
        pytest.param(
            SizedLeaderWorkerSet, {"leaderWorkerTemplate": {"size": 5}}, id="LeaderWorkerSet"
        ),
    ],
)
def test_only_uid_generation_and_size_are_kept(kind: type, size: object) -> None:
    kept = msgspec.to_builtins(slim_size(msgspec.convert(OBJECT, kind)))
    assert kept["spec"] == size
    assert kept["metadata"] == {
        "name": "llm",
        "namespace": "team",
        "uid": "u",
        "resourceVersion": "7",
        "generation": 3,
    }


def test_the_watched_type_of_a_set_has_no_templates() -> None:
    assert SETS.object_type is SizedLeaderWorkerSet


class Sizes:
    """One StatefulSet of three, with this uid."""

    def __init__(self, uid: str) -> None:
        body = {"metadata": {"name": "db", "uid": uid, "generation": 2}, "spec": {"replicas": 3}}
        self._set = msgspec.convert(body, StatefulSetObject)

    def get(self, *_: object) -> StatefulSetObject:
        return self._set


@pytest.mark.parametrize(("uid", "known"), [("uid-db", True), ("uid-of-a-later-one", False)])
def test_a_set_counts_for_its_own_pods_alone(uid: str, known: bool) -> None:
    adapter = StatefulSetAdapter()
    store: IndexedStore[Pod] = IndexedStore(indexes=pod_indexes([adapter]))
    store.put_observed(build_pod("db-0", owner=("apps/v1", "StatefulSet", "db")))
    cache = PodGroupCache(adapter, store, Sizes(uid))
    group = cache.get("team/db")
    assert group is not None
    assert [each.count for each in adapter.pod_sets(group)] == ([3] if known else [])
    wanted = adapter.other_of(group)
    assert wanted is not None
    assert (wanted.uid, wanted.generation) == (("uid-db", 2) if known else ("", 0))
