"""Which job a held pod is of."""

from __future__ import annotations

import pytest

from shared_api.held_jobs import uid_of_held_job, uid_of_name
from shared_api.objects.meta import ObjectMeta, OwnerReference, Uid
from shared_api.objects.pod import Pod


def owner(kind: str) -> OwnerReference:
    return OwnerReference(kind=kind, uid=Uid("uid-owner"), controller=True)


def pod(*owners: OwnerReference, **labels: str) -> Pod:
    spelled = {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()}
    meta = ObjectMeta(
        name="p", namespace="ns", uid=Uid("uid-p"), labels=spelled, owner_references=owners
    )
    return Pod(metadata=meta)


LWS = {"leaderworkerset.sigs.k8s.io__name": "s", "leaderworkerset.sigs.k8s.io__group_index": "1"}
GROUP = {"kueue.x_k8s.io__pod_group_name": "g"}

CASES = {
    "a pod is its own job": (pod(), "uid-p"),
    "so is one of a Deployment": (pod(owner("ReplicaSet")), "uid-p"),
    "a pod of a StatefulSet is of the set": (pod(owner("StatefulSet")), "uid-owner"),
    "one of a group is of the group": (pod(**GROUP), uid_of_name("podgroup", "ns", "g")),
    "also if a StatefulSet made it": (
        pod(owner("StatefulSet"), **GROUP),
        uid_of_name("podgroup", "ns", "g"),
    ),
    "one of a LeaderWorkerSet is of its group": (
        pod(owner("StatefulSet"), **LWS),
        uid_of_name("leaderworkerset", "ns", "s-1"),
    ),
}


@pytest.mark.parametrize(("found", "want"), CASES.values(), ids=CASES)
def test_the_job_of_a_held_pod(found: Pod, want: str) -> None:
    assert uid_of_held_job(found) == want


def test_a_name_gives_one_uid_everywhere() -> None:
    got = uid_of_name("podgroup", "ns", "g")
    assert got == uid_of_name("podgroup", "ns", "g")
    assert [len(part) for part in got.split("-")] == [8, 4, 4, 4, 12]
    others = [("podgroup", "ns", "h"), ("podgroup", "other", "g"), ("leaderworkerset", "ns", "g")]
    assert got not in [uid_of_name(*each) for each in others]
