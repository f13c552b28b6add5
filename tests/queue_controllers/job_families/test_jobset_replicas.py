"""The demand of a JobSet's replicated jobs, and the counts of its status."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from queue_controllers.decision.queue_unit_builder import demand_of
from queue_controllers.job_families.jobset_replicas import (
    POD_LABELS,
    JobCounts,
    ReplicatedJob,
    are_held,
    job_set_name,
    patch_for_updates,
    pod_set_by_role,
    pod_sets_of,
    read_jobset_status,
)
from queue_controllers.jobframework.generic_job import PodStamp, updates_of_stamps
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.pod import Pod

TEN = Timestamp("2026-11-01T10:00:00Z")


def jobs(name: str = "workers", **fields: Any) -> ReplicatedJob:
    pod = fields.pop("pod", {})
    job: dict[str, Any] = {
        key: fields.pop(key) for key in ("parallelism", "completions") if key in fields
    }
    template = {"spec": job | {"template": {"spec": pod}}}
    return msgspec.convert({"name": name, "template": template, **fields}, ReplicatedJob)


def counts(name: str = "workers", **said: int) -> JobCounts:
    return JobCounts(name=name, **said)


@pytest.mark.parametrize(
    ("of", "succeeded", "want", "done"),
    [
        pytest.param(jobs(), 0, 1, False, id="no fields: one pod of one Job"),
        pytest.param(jobs(replicas=3), 0, 3, False, id="three Jobs of one"),
        pytest.param(jobs(replicas=3, parallelism=2), 0, 6, False, id="parallelism, of each"),
        pytest.param(
            jobs(replicas=3, parallelism=4, completions=2),
            0,
            6,
            False,
            id="at most the completions",
        ),
        pytest.param(
            jobs(replicas=3, parallelism=2, completions=8), 0, 6, False, id="some at a time"
        ),
        pytest.param(jobs(replicas=3, parallelism=2), 1, 4, False, id="one Job has succeeded"),
        pytest.param(jobs(replicas=3, parallelism=2), 3, 0, True, id="all have"),
        pytest.param(jobs(replicas=0), 0, 0, False, id="scaled to nothing is not done"),
        pytest.param(jobs(replicas=1), 2, 0, True, id="more than wanted"),
    ],
)
def test_counts(of: ReplicatedJob, succeeded: int, want: int, done: bool) -> None:
    (found,) = pod_sets_of((of,), (counts(succeeded=succeeded),))
    assert (found.name, found.count, found.is_done) == ("workers", want, done)


def words_of_the_crd(specs: list[dict[str, Any]]) -> int:
    """Return the CPU (milli) of all pods at a time.

    `replicas` Jobs (1), of `parallelism` pods each (1), but never more than `completions` (the
    parallelism); in brackets what they default to.
    """
    total = 0
    for spec in specs:
        job = spec["template"]["spec"]
        parallelism = job.get("parallelism", 1)
        at_a_time = min(parallelism, job.get("completions", parallelism))
        containers = job["template"]["spec"]["containers"]
        cpu = sum(int(each["resources"]["requests"]["cpu"][:-1]) for each in containers)
        total += spec.get("replicas", 1) * at_a_time * cpu
    return total


@pytest.mark.parametrize("seed", range(100))
def test_demand_of_generated_specs(seed: int) -> None:
    rng = random.Random(seed)
    specs = []
    for number in range(rng.randint(1, 5)):
        containers = [
            {"name": f"c{at}", "resources": {"requests": {"cpu": f"{rng.randint(1, 4000)}m"}}}
            for at in range(rng.randint(1, 3))
        ]
        job: dict[str, Any] = {"template": {"spec": {"containers": containers}}}
        for field in ("parallelism", "completions"):
            if rng.random() < 0.6:
                job[field] = rng.randint(0, 9)
        spec: dict[str, Any] = {"name": f"r{number}", "template": {"spec": job}}
        if rng.random() < 0.6:
            spec["replicas"] = rng.randint(0, 6)
        specs.append(spec)
    of = msgspec.convert(specs, tuple[ReplicatedJob, ...])
    assert demand_of(pod_sets_of(of, ())).get("cpu", 0) == words_of_the_crd(specs)


def test_sets_keep_the_order_of_the_spec() -> None:
    of = (jobs("b"), jobs("a"), jobs("c"))
    assert [each.name for each in pod_sets_of(of, (counts("a"), counts("b")))] == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("of", "said", "want"),
    [
        pytest.param(jobs(replicas=2), counts(suspended=2), True, id="all suspended"),
        pytest.param(jobs(replicas=2), counts(suspended=1), False, id="one not yet"),
        pytest.param(
            jobs(replicas=2), counts(suspended=1, succeeded=1), True, id="the other is done"
        ),
        pytest.param(jobs(replicas=2), counts(), False, id="not counted yet"),
        pytest.param(
            jobs(replicas=2, dependsOn=[{"name": "a"}]), counts(), True, id="not created yet"
        ),
        pytest.param(
            jobs(replicas=2, dependsOn=[{"name": "a"}]),
            counts(active=2),
            False,
            id="created and running",
        ),
        pytest.param(jobs(replicas=2), counts("other", suspended=2), False, id="another's"),
    ],
)
def test_whether_all_are_held(of: ReplicatedJob, said: JobCounts, want: bool) -> None:
    assert are_held((of,), (said,)) is want


def condition(kind: str, status: str = "True") -> Condition:
    return Condition(type=kind, status=status, reason="Why", message="", last_transition_time=TEN)


def test_status() -> None:
    of = (jobs(replicas=2),)
    suspended = read_jobset_status(
        (condition("Suspended"),), (counts(suspended=2),), of, "Completed"
    )
    assert (suspended.suspended, suspended.suspended_since) == (True, TEN)
    assert (suspended.running, suspended.pods, suspended.is_empty) == (False, 0, False)
    assert not suspended.is_at_odds
    late = read_jobset_status(
        (condition("Suspended"),), (counts(active=1, ready=2),), of, "Completed"
    )
    assert (late.suspended, late.running, late.pods) == (False, True, 1)
    assert late.is_at_odds
    ready = read_jobset_status((), (counts(ready=1),), of, "Completed")
    assert (ready.running, ready.pods, ready.suspended_since) == (True, 0, None)
    assert not ready.is_at_odds
    resumed = read_jobset_status(
        (condition("Suspended", "False"),), (counts(suspended=2),), of, "Done"
    )
    assert (resumed.suspended, resumed.is_at_odds) == (False, True)
    assert read_jobset_status((), (), of, "Completed").is_empty


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param((), None, id="none"),
        pytest.param((condition("Completed"),), (True, ""), id="the condition of success"),
        pytest.param((condition("Complete"),), None, id="another kind's"),
        pytest.param((condition("Completed", "False"),), None, id="not so"),
        pytest.param((condition("Failed"),), (False, "Why"), id="failed, without a message"),
        pytest.param((condition("Failed", "False"),), None, id="not failed"),
        pytest.param(
            (condition("Suspended"), condition("Failed")), (False, "Why"), id="beside another"
        ),
    ],
)
def test_how_it_ended(conditions: tuple[Condition, ...], want: tuple[bool, str] | None) -> None:
    outcome = read_jobset_status(conditions, (), (), "Completed").outcome
    assert (None if outcome is None else (outcome.succeeded, outcome.message)) == want


def test_patches_name_only_what_changes() -> None:
    stamps = {"b": PodStamp(labels={"l": "1"}), "c": PodStamp(annotations={"a": "2"})}
    metadata = {"labels": {"l": "1"}}
    b = {"name": "b", "template": {"spec": {"template": {"metadata": metadata}}}}
    c = {"name": "c", "template": {"spec": {"template": {"metadata": {"annotations": {"a": "2"}}}}}}
    assert patch_for_updates(("a", "b", "c"), updates_of_stamps(stamps)) == [b, c]
    update = TemplateUpdate(
        labels={"l": None}, node_selector={"zone": "z"}, tolerations=({"operator": "Exists"},)
    )
    spec = {"nodeSelector": {"zone": "z"}, "tolerations": [{"operator": "Exists"}]}
    template = {"metadata": {"labels": {"l": None}}, "spec": spec}
    want = [{"name": "b", "template": {"spec": {"template": template}}}]
    assert patch_for_updates(("a", "b"), {"b": update}) == want
    (only,) = patch_for_updates(("b",), {"b": TemplateUpdate(annotations={"a": "1"})})
    assert only["template"]["spec"]["template"] == {"metadata": {"annotations": {"a": "1"}}}


def test_pods_have_their_job_set_and_role() -> None:
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "main",
        "jobset.sigs.k8s.io/replicatedjob-name": "workers",
    }
    pod = msgspec.convert({"metadata": {"labels": labels}}, Pod)
    assert set(POD_LABELS) == set(labels)
    assert (job_set_name(labels), pod_set_by_role(pod)) == ("main", "workers")
    assert (job_set_name({}), pod_set_by_role(Pod())) == ("", "")
