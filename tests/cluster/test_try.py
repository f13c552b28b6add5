"""What is said of a manifest before it is submitted is what happens when it is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.queue_world import Cluster, QueueWorld, debug, refusal_of
from tests.waiting import until

Json = dict[str, Any]


def try_manifest(cluster: Cluster, body: Json) -> Json:
    """Return what the scheduler says of one job."""
    answer = cluster.scheduler.ask("/debug/try", body=body)
    assert answer.status_code == 200, answer.text
    (job,) = answer.json()["jobs"]
    return dict(job)


def manifest(name: str, cpu: str) -> Json:
    """Return a Job of two pods."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    labels = {"quota.scheduling.koordinator.sh/name": "team-a"}
    marks = {
        "scheduling.x-k8s.io/priority": "5",
        "scheduling.x-k8s.io/max-exec-time-seconds": "900",
    }
    template = {
        "metadata": {"annotations": {"koord-queue.test/run-seconds": "600"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name, "namespace": "default", "labels": labels, "annotations": marks,
        },
        "spec": {"suspend": True, "parallelism": 2, "completions": 2, "template": template},
    }  # fmt: skip


@pytest.fixture
def busy(cluster: Cluster, world: QueueWorld) -> Cluster:
    """A quota of six cores, of which two are used and five are waited for."""
    world.create_quota("team-a", cpu_max=6)
    world.create_job("old", "team-a", cpu="2", run_seconds="600")
    until(lambda: world.running_pods("old"))
    world.create_job("large", "team-a", cpu="5", run_seconds="600")
    until(lambda: refusal_of(cluster.scheduler, "large"))
    return cluster


def test_what_is_said_is_what_happens(busy: Cluster) -> None:
    for name, cpu, starts in (("fits", "1", True), ("waits", "4", False)):
        world, body = busy.world, manifest(name, cpu)
        said = try_manifest(busy, body)
        assert said["startsNow"] is starts, said["summary"]
        assert name not in [each["metadata"]["name"] for each in world.units()]
        world.api.request("POST", "/apis/batch/v1/namespaces/default/jobs", body)
        if starts:
            until(lambda: busy.world.running_pods("fits"))
        else:
            until(lambda: refusal_of(busy.scheduler, "waits"))
            compare_explanations(said, debug(busy.scheduler, EXPLAIN))
        compare_units(said, world.unit_of(name))


EXPLAIN = "/debug/queueunits/default/waits/explain"


def compare_units(said: Json, unit: Json) -> None:
    spec = unit["spec"]
    assert said["unit"] == unit["metadata"]["name"]
    assert (said["queue"], said["priority"]) == (spec["queue"], spec["priority"])
    assert said["request"] == spec["request"]
    assert said["maximumExecutionTimeSeconds"] == spec["maximumExecutionTimeSeconds"]
    sets = [(each["name"], each["count"]) for each in said["podSets"]]
    assert sets == [(each["name"], each["count"]) for each in spec["podSet"]]


def compare_explanations(said: Json, found: Json) -> None:
    assert said["position"] == found["position"]
    assert said["explanation"]["blockers"] == found["blockers"]
    assert said["summary"] == f"It would not start now. {found['summary']}"
