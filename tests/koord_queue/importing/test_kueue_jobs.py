"""Jobs with Kueue's labels get ours."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from koord_queue.importing.kueue_jobs import (
    BY_HAND,
    PRIORITY_CLASS,
    SUSPENDED,
    MovedJob,
    cron_jobs_by_hand,
    move_job,
)
from koord_queue.importing.kueue_objects import read_objects
from koord_queue.importing.plan import Lost
from queue_controllers.extension_list import EXTENSIONS
from queue_controllers.jobframework.generic_job import GenericJob
from tests.koord_queue.importing.kueue_bodies import (
    cluster_queue,
    local_queue,
    priority_class,
)

Json = dict[str, Any]
OBJECTS = read_objects(
    [
        cluster_queue("team"),
        cluster_queue("empty"),
        local_queue("default", "user-queue", "team"),
        local_queue("default", "lost", "legacy"),
        local_queue("default", "unlimited", "empty"),
        priority_class("urgent", 7),
    ]
)
QUOTAS = frozenset({"team"})
QUEUE = "kueue.x-k8s.io/queue-name"
QUOTA = "quota.scheduling.koordinator.sh/name"


def job(kind: str = "batch/v1 Job", *, spec: Json | None = None, **more: Any) -> Json:
    """Return a job; `more`: labels, status, owners."""
    api_version, name = kind.split()
    labels = {QUEUE: "user-queue"} | more.get("labels", {})
    metadata = {"name": "train", "namespace": "default", "labels": labels}
    return {
        "apiVersion": api_version,
        "kind": name,
        "metadata": metadata | {"ownerReferences": more.get("owners", [])},
        "spec": spec or {},
        "status": more.get("status", {}),
    }


@pytest.mark.parametrize(
    ("body", "state"),
    [
        pytest.param(job(), "runs", id="a job that Kueue has released"),
        pytest.param(job(spec={"suspend": True}), "waits", id="one that it holds"),
        pytest.param(
            job("kubeflow.org/v1 PyTorchJob", spec={"runPolicy": {"suspend": True}}),
            "waits",
            id="a kind that is held elsewhere",
        ),
        pytest.param(job("jobset.x-k8s.io/v1alpha2 JobSet"), "runs", id="a set of jobs"),
    ],
)
def test_a_job_gets_the_quota_of_its_local_queue(body: Json, state: str) -> None:
    got = move_job(body, OBJECTS, QUOTAS)
    assert isinstance(got, MovedJob)
    assert (got.state, got.quota) == (state, "team")
    assert got.patch == {"metadata": {"labels": {QUOTA: "team", QUEUE: None}}}


def test_priority_and_time_limit_become_annotations() -> None:
    labels = {
        "kueue.x-k8s.io/priority-class": "urgent",
        "kueue.x-k8s.io/max-exec-time-seconds": "60",
    }
    got = move_job(job(labels=labels), OBJECTS, QUOTAS)
    assert isinstance(got, MovedJob)
    assert got.patch["metadata"] == {
        "labels": {QUOTA: "team", QUEUE: None, **dict.fromkeys(labels)},
        "annotations": {
            "scheduling.x-k8s.io/priority": "7",
            "scheduling.x-k8s.io/max-exec-time-seconds": "60",
        },
    }


ENDED = {"conditions": [{"type": "Complete", "status": "True"}]}
OWNER = {"kind": "JobSet", "controller": True}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(job(labels={QUEUE: ""}), id="it names no LocalQueue"),
        pytest.param(job(status=ENDED), id="it has ended"),
        pytest.param(job(status={"phase": "Succeeded"}), id="it has ended, by its phase"),
        pytest.param(job(owners=[OWNER]), id="another job has made it"),
    ],
)
def test_jobs_that_are_left_alone(body: Json) -> None:
    assert move_job(body, OBJECTS, QUOTAS) is None


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(job("v1 Pod"), "a gate that only Kueue opens", id="a pod that it gates"),
        pytest.param(
            job(labels={QUEUE: "gone"}), "no LocalQueue gone", id="a LocalQueue that is gone"
        ),
        pytest.param(
            job(labels={QUEUE: "lost"}),
            "its LocalQueue lost names ClusterQueue legacy, which does not exist",
            id="a ClusterQueue that is gone",
        ),
        pytest.param(
            job(labels={QUEUE: "unlimited"}),
            "names ClusterQueue empty, which becomes no quota",
            id="a ClusterQueue that becomes no quota",
        ),
        pytest.param(
            job(labels={PRIORITY_CLASS: "gone"}),
            "no WorkloadPriorityClass gone: create it, or take the label away",
            id="a priority class that is gone",
        ),
    ],
)
def test_jobs_that_cannot_be_taken_over(body: Json, want: str) -> None:
    for each in (body, {**body, "spec": {"suspend": True}}):
        got = move_job(each, OBJECTS, QUOTAS)
        assert isinstance(got, Lost)
        assert want in got.why
        assert got.field.startswith("metadata.labels[kueue.x-k8s.io/")


HELD = [each for each in EXTENSIONS if not each.kind.held_by_gates]


def test_the_kinds_are_those_that_the_controllers_hold_by_a_field() -> None:
    assert {(each.kind.api_version, each.kind.kind) for each in HELD} == SUSPENDED.keys()
    gated = {each.kind.kind for each in EXTENSIONS if each.kind.held_by_gates}
    assert {kind for _, kind in BY_HAND} | {"PodGroup"} == gated | {"Deployment"}


@pytest.mark.parametrize("adapter", HELD, ids=lambda each: each.kind.key)
@pytest.mark.parametrize("is_held", [True, False])
def test_a_job_waits_if_the_controllers_say_so(adapter: GenericJob[Any], is_held: bool) -> None:
    kind = adapter.kind
    value: Any = is_held
    for key in reversed(SUSPENDED[kind.api_version, kind.kind]):
        value = {key: value}
    body = job(f"{kind.api_version} {kind.kind}", spec=value["spec"])
    read = msgspec.convert({**body, "status": {}}, adapter.object_type)
    got = move_job(body, OBJECTS, QUOTAS)
    assert isinstance(got, MovedJob)
    assert (got.state == "waits", adapter.is_suspended(read)) == (is_held, is_held)


def test_templates_of_cron_jobs_are_the_users_to_change() -> None:
    template = {"metadata": {"labels": {QUEUE: "user-queue"}}}
    own = {"metadata": {"name": "a", "namespace": "x"}, "spec": {"jobTemplate": template}}
    other = {"metadata": {"name": "b", "namespace": "x"}, "spec": {"jobTemplate": {}}}
    assert [each.source for each in cron_jobs_by_hand([own, other])] == ["CronJob x/a"]
