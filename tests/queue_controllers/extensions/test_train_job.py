"""Facts about TrainJob."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from queue_controllers.decision.queue_unit_builder import demand_of
from queue_controllers.extensions.train_job import ChildJobSet, TrainJob, TrainJobAdapter
from queue_controllers.jobframework.generic_job import (
    GenericJob,
    LabelsPods,
    ListsTemplates,
    ManagedElsewhere,
    NeedsOther,
    PodStamp,
    PrioritySource,
    SortsPods,
    TakesTemplateUpdates,
    read_facts,
)
from queue_controllers.jobframework.list_patches import fill_lists
from queue_controllers.jobframework.template_updates import TemplateUpdate
from tests.recorded_lives import demands_of, told_states
from tests.sample_jobs import sample, troubles_of

ADAPTER: GenericJob[TrainJob] = TrainJobAdapter()
NODES = {"name": "node", "template": {"spec": {"parallelism": 2, "completions": 2}}}


def job(status: dict[str, Any] | None = None, **spec: Any) -> TrainJob:
    body = {"metadata": {"name": "main"}, "spec": spec, "status": status or {}}
    return msgspec.convert(body, TrainJob)


def child(*replicated_jobs: dict[str, Any]) -> ChildJobSet:
    return msgspec.convert({"spec": {"replicatedJobs": replicated_jobs}}, ChildJobSet)


def whole(*replicated_jobs: dict[str, Any], **spec: Any) -> TrainJob:
    return TrainJobAdapter().with_other(job(**spec), child(*replicated_jobs))


def test_it_has_these_abilities() -> None:
    for ability in (LabelsPods, SortsPods, ListsTemplates, ManagedElsewhere, TakesTemplateUpdates):
        assert isinstance(ADAPTER, ability)
    assert isinstance(ADAPTER, NeedsOther)


def test_until_its_job_set_is_known_its_demand_is_unknown() -> None:
    of = job(runtimeRef={"kind": "TrainingRuntime", "name": "mine"})
    facts = read_facts(ADAPTER, of, held_by_annotation=False)
    assert facts.pod_sets == ()
    assert "JobSet main" in facts.unknown_demand
    assert "from TrainingRuntime mine" in facts.unknown_demand
    other = TrainJobAdapter().other_of(of)
    assert (other.group, other.version, other.plural) == ("jobset.x-k8s.io", "v1alpha2", "jobsets")
    assert (other.kind, other.name) == ("JobSet", "main")
    known = read_facts(ADAPTER, whole(NODES), held_by_annotation=False)
    assert (known.unknown_demand, [each.count for each in known.pod_sets]) == ("", [2])


def test_its_sets_are_those_of_its_job_set_without_succeeded_jobs() -> None:
    status = {"jobsStatus": [{"name": "dataset", "succeeded": 1}]}
    high = {"spec": {"template": {"spec": {"priorityClassName": "high"}}}}
    of = TrainJobAdapter().with_other(job(status), child({"name": "dataset"}, NODES))
    assert [(each.name, each.count) for each in ADAPTER.pod_sets(of)] == [
        ("dataset", 0),
        ("node", 2),
    ]
    first = whole({"name": "dataset"}, {"name": "model", "template": high})
    assert ADAPTER.priority_of(first) == PrioritySource("high")


def conditions(*kinds: str) -> list[dict[str, str]]:
    return [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-11-01T10:00:00Z"}
        for kind in kinds
    ]


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, (False, False, 0, None), id="nothing said"),
        pytest.param(
            {"conditions": conditions("Suspended"), "jobsStatus": [{"name": "node"}]},
            (False, False, 0, None),
            id="its Jobs are not suspended yet",
        ),
        pytest.param(
            {
                "conditions": conditions("Suspended"),
                "jobsStatus": [{"name": "node", "suspended": 1}],
            },
            (True, False, 0, None),
            id="held",
        ),
        pytest.param(
            {"jobsStatus": [{"name": "node", "active": 1}]}, (False, True, 1, None), id="runs"
        ),
        pytest.param(
            {"conditions": conditions("Complete")}, (False, False, 0, True), id="succeeded"
        ),
        pytest.param(
            {"conditions": conditions("Suspended", "Failed")},
            (False, False, 0, False),
            id="suspended after it failed",
        ),
    ],
)
def test_status(status: dict[str, Any], want: tuple[bool, bool, int, bool | None]) -> None:
    found = ADAPTER.status_of(TrainJobAdapter().with_other(job(status), child(NODES)))
    outcome = None if found.outcome is None else found.outcome.succeeded
    assert (found.suspended, found.running, found.pods, outcome) == want


def test_patches_change_only_the_queues_own_entry() -> None:
    of = whole({"name": "dataset"}, NODES)
    assert ADAPTER.release_patch(of, {}) == {"spec": {"suspend": False}}
    released = ADAPTER.release_patch(of, {"node": PodStamp(labels={"l": "1"})})
    template = {"metadata": {"labels": {"l": "1"}}}
    changed = {"name": "node", "template": {"spec": {"template": template}}}
    entry = {
        "manager": "koord-queue/manager",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [changed]}}},
    }
    assert released == {"spec": {"suspend": False, "runtimePatches": [entry]}}
    theirs = {"manager": "other", "trainingRuntimeSpec": {"template": {}}}
    found = {"spec": {"runtimePatches": [theirs]}}
    filled = fill_lists(released, found, TrainJobAdapter.list_keys)
    assert filled["spec"]["runtimePatches"] == [theirs, entry]
    updates = {"node": TemplateUpdate(labels={"l": "1"})}
    assert TrainJobAdapter().update_patch(of, updates) == {"spec": {"runtimePatches": [entry]}}
    assert TrainJobAdapter().update_patch(of, {}) == {}


def test_of_the_queues_entry_only_changed_fields_are_patched() -> None:
    of = whole({"name": "dataset"}, NODES)
    stamps = {name: PodStamp(labels={"l": "1"}) for name in ("dataset", "node")}
    before = ADAPTER.release_patch(of, stamps)
    update = TrainJobAdapter().update_patch(of, {"node": TemplateUpdate(labels={"l": None})})
    filled = fill_lists(update, before, TrainJobAdapter.list_keys)
    (entry,) = filled["spec"]["runtimePatches"]
    jobs = entry["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    labels = [each["template"]["spec"]["template"]["metadata"]["labels"] for each in jobs]
    assert labels == [{"l": "1"}, {}]


def test_the_sample_and_its_release() -> None:
    body = sample("trainjob")
    assert troubles_of(body, "trainjobs") == []
    of = TrainJobAdapter().with_other(msgspec.convert(body, TrainJob), child(NODES))
    patch = ADAPTER.release_patch(of, {"node": PodStamp(labels={"l": "1"})})
    assert troubles_of({**body, "spec": {**body["spec"], **patch["spec"]}}, "trainjobs") == []


def test_its_recorded_life() -> None:
    run = ["held", "released", "starting", "running", "stopping"]
    last = ["held", "released", "starting", "running", "starting", "finished", "gone"]
    # The first "stopping" is a moment between the condition and the counts.
    assert told_states("trainjob-abcde") == ["held", "stopping", *run, *last]
    # Until its JobSet exists its demand is unknown.
    assert demands_of("trainjob-abcde") == [{}, {"cpu": "2", "memory": "2Gi"}]


@pytest.mark.parametrize("seed", range(100))
def test_demand_of_generated_job_sets(seed: int) -> None:
    rng = random.Random(seed)
    jobs, status, milli = [], [], 0
    for name in ("dataset", "model", "launcher", "node")[: rng.randint(1, 4)]:
        nodes, cpu, replicas = rng.randint(1, 16), rng.randint(1, 8000), rng.randint(1, 2)
        container = {"name": name, "resources": {"requests": {"cpu": f"{cpu}m"}}}
        spec: dict[str, Any] = {"template": {"spec": {"containers": [container]}}}
        if nodes > 1 or rng.random() < 0.5:
            spec |= {"parallelism": nodes, "completions": nodes}
        jobs.append({"name": name, "replicas": replicas, "template": {"spec": spec}})
        succeeded = rng.randint(0, replicas)
        status.append({"name": name, "succeeded": succeeded})
        milli += (replicas - succeeded) * nodes * cpu
    rng.shuffle(status)
    of = TrainJobAdapter().with_other(job({"jobsStatus": status}), child(*jobs))
    assert demand_of(ADAPTER.pod_sets(of)).get("cpu", 0) == milli
