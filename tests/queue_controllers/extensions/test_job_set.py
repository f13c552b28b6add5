"""Facts about JobSet."""

from __future__ import annotations

from typing import Any

import msgspec

from queue_controllers.extensions.job_set import JobSet, JobSetAdapter
from queue_controllers.jobframework.generic_job import (
    GenericJob,
    LabelsPods,
    ListsTemplates,
    ManagedElsewhere,
    PodStamp,
    PrioritySource,
    SortsPods,
    TakesTemplateUpdates,
)
from queue_controllers.jobframework.template_updates import TemplateUpdate
from tests.recorded_lives import demands_of, told_states
from tests.sample_jobs import sample, shown_sets, troubles_of

ADAPTER: GenericJob[JobSet] = JobSetAdapter()


def job(status: dict[str, Any] | None = None, **spec: Any) -> JobSet:
    body = {"metadata": {"name": "main"}, "spec": spec, "status": status or {}}
    return msgspec.convert(body, JobSet)


def test_it_has_these_abilities() -> None:
    for ability in (LabelsPods, SortsPods, ListsTemplates, ManagedElsewhere, TakesTemplateUpdates):
        assert isinstance(ADAPTER, ability)


def test_patches() -> None:
    of = job(replicatedJobs=[{"name": "driver"}, {"name": "workers"}])
    assert ADAPTER.suspend_patch(of) == {"spec": {"suspend": True}}
    assert ADAPTER.release_patch(of, {}) == {"spec": {"suspend": False}}
    stamped = ADAPTER.release_patch(of, {"workers": PodStamp(labels={"l": "1"})})
    template = {"metadata": {"labels": {"l": "1"}}}
    changed = {"name": "workers", "template": {"spec": {"template": template}}}
    assert stamped == {"spec": {"suspend": False, "replicatedJobs": [changed]}}
    updates = {"workers": TemplateUpdate(labels={"l": "1"})}
    assert JobSetAdapter().update_patch(of, updates) == {"spec": {"replicatedJobs": [changed]}}
    assert JobSetAdapter().update_patch(of, {}) == {}
    assert JobSetAdapter.list_keys == {"spec.replicatedJobs": "name"}


def test_the_sample() -> None:
    body = sample("jobset")
    assert troubles_of(body, "jobsets") == []
    assert shown_sets(ADAPTER, body) == {
        "driver": (1, {"cpu": "500m", "memory": "1Gi"}),
        "workers": (8, {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}),
    }
    assert ADAPTER.priority_of(msgspec.convert(body, JobSet)) == PrioritySource("high")
    assert JobSetAdapter().full_templates(body) == {
        each["name"]: each["template"]["spec"]["template"]
        for each in body["spec"]["replicatedJobs"]
    }


def test_finished_work_is_read_from_the_status() -> None:
    status = {"replicatedJobsStatus": [{"name": "driver", "succeeded": 1}]}
    of = job(status, replicatedJobs=[{"name": "driver"}, {"name": "workers", "replicas": 2}])
    assert [(each.name, each.count) for each in ADAPTER.pod_sets(of)] == [
        ("driver", 0),
        ("workers", 2),
    ]


def test_its_recorded_life() -> None:
    run = ["held", "released", "starting", "running", "stopping"]
    last = ["held", "released", "starting", "running", "starting", "finished", "gone"]
    # The first "stopping" is a moment between the condition and the counts.
    assert told_states("jobset-abcde") == ["held", "stopping", *run, *last]
    assert demands_of("jobset-abcde") == [{"cpu": "5", "memory": "5Gi"}]


def test_a_life_in_which_a_job_succeeds_before_the_rest() -> None:
    assert demands_of("jobset-j-partial") == [
        {"cpu": "5", "memory": "5Gi"},
        {"cpu": "4", "memory": "4Gi"},
    ]
