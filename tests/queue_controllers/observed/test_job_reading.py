"""What is read of jobs and pods that other queues hold."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.job_ownership import ClusterContext
from queue_controllers.extensions.batch_job import BatchJob, BatchJobAdapter
from queue_controllers.extensions.train_job import TrainJobAdapter
from queue_controllers.jobframework.pod_scheduling import ReadPod
from queue_controllers.observed.job_reading import ObservedJob, read_job, timed
from shared_api.objects.pod import Pod
from shared_api.timestamps import parse_time
from tests.sample_jobs import sample

Json = dict[str, Any]
CREATED = "2026-11-01T10:00:00Z"


def read(*pods: Pod, status: Json | None = None, suspend: bool = False, **meta: Any) -> Any:
    """Read a Job that Kueue's LocalQueue `main` holds."""
    container = {"resources": {"requests": {"cpu": "2"}}}
    body = {
        "metadata": {
            "name": "train",
            "namespace": "a",
            "uid": "u-1",
            "creationTimestamp": CREATED,
            "labels": {"kueue.x-k8s.io/queue-name": "main"},
            **meta,
        },
        "spec": {"suspend": suspend, "template": {"spec": {"containers": [container]}}},
        "status": status or {},
    }
    job = msgspec.convert(body, BatchJob)
    return read_job(BatchJobAdapter(), job, pods, ClusterContext(), lambda *_: None)


def pod(scheduled: str = "", *, node: str = "node-1", phase: str = "Running") -> Pod:
    """Return a pod as it is kept; `scheduled`: when the scheduler says that it got its node."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T10:09:00Z"}
    said = {"type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled}
    body = {
        "metadata": {"name": "pod", "creationTimestamp": "2026-11-01T10:01:00Z"},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": [ready, said] if scheduled else [ready]},
    }
    found = msgspec.convert(body, ReadPod)
    return timed(found, Pod(metadata=found.metadata))


def test_what_it_asks_for_is_the_unit_that_a_reconcile_would_create() -> None:
    job = read(suspend=True)
    assert isinstance(job, ObservedJob)
    assert (job.uid, job.key, job.kind, job.kueue_queue) == ("u-1", "a/train", "job", "main")
    assert job.submitted == parse_time(CREATED)
    assert job.unit is not None
    assert job.unit["metadata"]["name"] == "train"
    assert job.unit["spec"]["request"] == {"cpu": "2"}
    assert "queue" not in job.unit["spec"]
    assert (job.suspended, job.outcome, job.ended) == (True, "", None)


@pytest.mark.parametrize(
    ("pods", "since", "living"),
    [
        pytest.param((pod("2026-11-01T10:02:00Z"),), ["10:02"], 1, id="as its scheduler says"),
        pytest.param((pod(),), ["10:01"], 1, id="since it exists, if nothing says it"),
        pytest.param((pod(node="", phase="Pending"),), [], 0, id="not before it has a node"),
        pytest.param(
            (pod("2026-11-01T10:04:00Z"), pod("2026-11-01T10:03:00Z", phase="Succeeded")),
            ["10:03", "10:04"],
            1,
            id="those that have ended, too",
        ),
    ],
)
def test_since_when_pods_have_a_node(pods: tuple[Pod, ...], since: list[str], living: int) -> None:
    job = read(*pods)
    assert [f"{each:%H:%M}" for each in job.node_since] == since
    assert job.living_pods == living


@pytest.mark.parametrize(
    ("status", "outcome", "ended"),
    [
        pytest.param(
            {
                "completionTime": "2026-11-01T10:05:00Z",
                "conditions": [
                    {
                        "type": "Complete",
                        "status": "True",
                        "lastTransitionTime": "2026-11-01T10:06:00Z",
                    }
                ],
            },
            "succeeded",
            "10:05",
            id="its own time comes first",
        ),
        pytest.param(
            {
                "conditions": [
                    {
                        "type": "Suspended",
                        "status": "True",
                        "lastTransitionTime": "2026-11-01T10:09:00Z",
                    },
                    {
                        "type": "Failed",
                        "status": "True",
                        "lastTransitionTime": "2026-11-01T10:07:00Z",
                    },
                ]
            },
            "failed",
            "10:07",
            id="else that of the condition of its end",
        ),
        pytest.param(
            {"conditions": [{"type": "Complete", "status": "True"}]},
            "succeeded",
            "",
            id="it may not say",
        ),
    ],
)
def test_how_and_when_a_job_has_ended(status: Json, outcome: str, ended: str) -> None:
    job = read(status=status)
    assert job.outcome == outcome
    assert ("" if job.ended is None else f"{job.ended:%H:%M}") == ended


@pytest.mark.parametrize(
    ("kind", "labels", "counts"),
    [
        pytest.param("JobSet", {"kueue.x-k8s.io/queue-name": "main"}, False, id="another job"),
        pytest.param("CronJob", {}, True, id="what only starts jobs"),
        pytest.param("Pipeline", {}, False, id="an unknown owner"),
        pytest.param(
            "Pipeline", {"kueue.x-k8s.io/queue-name": "main"}, True, id="it names a queue itself"
        ),
    ],
)
def test_whose_job_it_is(kind: str, labels: dict[str, str], counts: bool) -> None:
    owner = {"apiVersion": "x/v1", "kind": kind, "name": "o", "uid": "u-2", "controller": True}
    assert (read(ownerReferences=[owner], labels=labels) is not None) == counts


def test_what_another_object_says_is_looked_up() -> None:
    adapter = TrainJobAdapter()
    job = msgspec.convert(sample("trainjob"), adapter.object_type)
    asked = []

    def related(_: Any, wanted: Any) -> None:
        asked.append(wanted.kind)

    found = read_job(adapter, job, (), ClusterContext(), related)
    assert asked == ["JobSet"]
    assert found is not None
    assert found.unit is None, "what it asks for is not known without it"
