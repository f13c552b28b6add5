"""Facts about batch/v1 Job."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from queue_controllers.decision.queue_unit_builder import demand_of
from queue_controllers.extensions.batch_job import (
    BatchJob,
    BatchJobAdapter,
    count_indexes,
    count_needed,
    is_done,
    work_left,
)
from queue_controllers.jobframework.generic_job import GenericJob, PodStamp, StatusFacts
from queue_controllers.jobframework.template_updates import TemplateUpdate
from tests.queue_controllers.extensions.generated_pods import cpu_of_pod, random_pod_spec

ADAPTER: GenericJob[BatchJob] = BatchJobAdapter()


def job(status: dict[str, Any] | None = None, **spec: Any) -> BatchJob:
    body = {"metadata": {"name": "main"}, "spec": spec, "status": status or {}}
    return msgspec.convert(body, BatchJob)


def condition(kind: str, status: str = "True") -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": "2026-11-01T10:00:00Z"}


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(job(), 1, id="no fields: one pod"),
        pytest.param(job(parallelism=3), 3, id="no completions: the parallelism"),
        pytest.param(job(parallelism=5, completions=2), 2, id="at most the completions left"),
        pytest.param(job({"succeeded": 2}, parallelism=2, completions=4), 2, id="ctl-40"),
        pytest.param(job({"succeeded": 3}, parallelism=2, completions=4), 1, id="one left"),
        pytest.param(job({"succeeded": 4}, parallelism=2, completions=4), 0, id="none left"),
        pytest.param(job(parallelism=0, completions=4), 0, id="scaled to nothing"),
    ],
)
def test_counts(of: BatchJob, want: int) -> None:
    assert count_needed(of) == want


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(job({"succeeded": 1}, parallelism=1, completions=9), 8, id="eight runs left"),
        pytest.param(job({"succeeded": 9}, parallelism=1, completions=9), 0, id="none left"),
        pytest.param(job(parallelism=3), None, id="no completions: as many as it is scaled to"),
        pytest.param(job({"succeeded": 1}, parallelism=3), 2, id="none is created after a success"),
        pytest.param(
            job({"succeeded": 8}, parallelism=9, completions=9, completionMode="Indexed"),
            None,
            id="fewer completions forget what has run beyond them",
        ),
    ],
)
def test_work_that_may_run_whatever_its_parallelism_becomes(of: BatchJob, want: int | None) -> None:
    assert work_left(of) == want
    (pod_set,) = ADAPTER.pod_sets(of)
    assert pod_set.work_left == want


@pytest.mark.parametrize("seed", range(100))
def test_demand_of_any_job(seed: int) -> None:
    rng = random.Random(seed)
    pod = random_pod_spec(rng)
    spec = {"parallelism": rng.randint(0, 20), "completions": rng.randint(1, 40)}
    kept = {key: value for key, value in spec.items() if rng.random() < 0.7}
    succeeded = rng.randint(0, kept.get("completions", 0))
    pods = min(kept.get("parallelism", 1), kept.get("completions", 40) - succeeded)
    of = job({"succeeded": succeeded}, template={"spec": pod}, **kept)
    assert demand_of(ADAPTER.pod_sets(of)).get("cpu", 0) == pods * cpu_of_pod(pod)


def with_annotations(of: BatchJob, **said: str) -> BatchJob:
    """Return the job with annotations of the queue, `-` written `_`."""
    annotations = {f"koord-queue/{key.replace('_', '-')}": text for key, text in said.items()}
    return replace(of, metadata=replace(of.metadata, annotations=annotations))


@pytest.mark.parametrize(
    ("of", "said", "want"),
    [
        pytest.param(job(parallelism=8), {}, (8, None, 8, None), id="needs all"),
        pytest.param(
            job(parallelism=8), {"min_parallelism": "3"}, (8, 3, 8, None), id="needs three at least"
        ),
        pytest.param(
            job(parallelism=8, completions=2),
            {"min_parallelism": "3"},
            (2, 2, 8, None),
            id="at most the completions left",
        ),
        pytest.param(
            job({"succeeded": 2}, parallelism=8, completions=2),
            {"min_parallelism": "3"},
            (0, None, 8, None),
            id="nothing left to do",
        ),
        pytest.param(
            job(parallelism=4),
            {"min_parallelism": "3", "released_parallelism": "4/8"},
            (8, 3, 8, 4),
            id="released with four",
        ),
        pytest.param(
            job(parallelism=5),
            {"min_parallelism": "3", "released_parallelism": "4/8"},
            (5, 3, 5, None),
            id="edited since",
        ),
    ],
)
def test_its_minimum_of_pods(
    of: BatchJob, said: dict[str, str], want: tuple[int, int | None, int, int | None]
) -> None:
    (found,) = BatchJobAdapter().pod_sets(with_annotations(of, **said))
    assert (
        found.count,
        found.min_count,
        found.wanted_parallelism,
        found.released_parallelism,
    ) == want


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(job(), False, id="nothing done"),
        pytest.param(job({"succeeded": 3}, completions=4), False, id="one left"),
        pytest.param(job({"succeeded": 4}, completions=4), True, id="none left"),
        pytest.param(job(parallelism=0, completions=4), False, id="scaled to nothing"),
        pytest.param(job(parallelism=0), False, id="the same, without completions"),
        pytest.param(job({"succeeded": 1}, parallelism=3), False, id="others still run"),
        pytest.param(job({"succeeded": 3}, parallelism=3), True, id="all that ran succeeded"),
        pytest.param(job({"succeeded": 2}, parallelism=0, completions=2), True, id="done, and 0"),
        pytest.param(
            job(
                {"succeeded": 1, "failedIndexes": "1"},
                parallelism=2,
                completions=2,
                completionMode="Indexed",
            ),
            True,
            id="the others failed for good",
        ),
    ],
)
def test_finished_work_differs_from_none_wanted(of: BatchJob, want: bool) -> None:
    assert is_done(of) is want
    (pod_set,) = BatchJobAdapter().pod_sets(of)
    assert pod_set.is_done is want


@pytest.mark.parametrize(
    ("completions", "parallelism", "succeeded", "failed", "mode", "want"),
    [
        pytest.param(8, 8, 1, "1,3-5", "Indexed", 3, id="ctl-41 indexes and ranges"),
        pytest.param(100, 5, 0, "1-3", "Indexed", 5, id="ctl-41 enough others are left"),
        pytest.param(4, 4, 1, "0,2-3", "Indexed", 0, id="ctl-41 none is left"),
        pytest.param(4, 4, 0, "0-3", "NonIndexed", 4, id="ctl-41 not indexed: ignored"),
        pytest.param(4, 4, 0, "3-1", "Indexed", 4, id="ctl-41 malformed: ignored"),
    ],
)
def test_failed_indexes_need_no_pod(
    completions: int, parallelism: int, succeeded: int, failed: str, mode: str, want: int
) -> None:
    of = job(
        {"succeeded": succeeded, "failedIndexes": failed},
        parallelism=parallelism,
        completions=completions,
        completionMode=mode,
    )
    assert count_needed(of) == want


@pytest.mark.parametrize(
    ("text", "completions", "want"), [("", 5, 0), ("31,34,61,62", 78, 4), ("1,3-5,7", 10, 5)]
)
def test_index_lists_are_counted(text: str, completions: int, want: int) -> None:
    """Conformance item ctl-42."""
    assert count_indexes(text, completions) == want


@pytest.mark.parametrize("text", ["x", "5-3", "1-3,3-5", "4,2", "10", "1,", "-1", "1--2", "¹"])
def test_an_invalid_index_list_raises(text: str) -> None:
    """Conformance item ctl-42."""
    with pytest.raises(ValueError, match="index"):
        count_indexes(text, 10)


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, StatusFacts(is_empty=True), id="no status yet"),
        pytest.param({"active": 2}, StatusFacts(running=True, pods=2), id="pods"),
        pytest.param({"ready": 1}, StatusFacts(ready=1), id="ready pods"),
        pytest.param({"terminating": 2}, StatusFacts(pods=2), id="terminating pods"),
    ],
)
def test_status(status: dict[str, Any], want: StatusFacts) -> None:
    assert ADAPTER.status_of(job(status)) == want


def test_conditions_count_only_when_true() -> None:
    """Conformance item ctl-45; a condition with status False or Unknown does not count."""
    ended = ADAPTER.status_of(job({"conditions": [condition("Complete")]})).outcome
    assert ended is not None
    assert ended.succeeded
    failed = {**condition("Failed"), "reason": "DeadlineExceeded"}
    lost = ADAPTER.status_of(job({"conditions": [failed]})).outcome
    assert lost is not None
    assert (lost.succeeded, lost.message) == (False, "DeadlineExceeded")
    undone = [condition("Complete", "False"), condition("Failed", "Unknown")]
    assert ADAPTER.status_of(job({"conditions": undone})).outcome is None
    assert ADAPTER.status_of(job({"conditions": [condition("FailureTarget")]})).outcome is None


def test_suspended_has_a_time() -> None:
    said = ADAPTER.status_of(job({"conditions": [condition("Suspended")]}))
    assert (said.suspended, said.suspended_since) == (True, "2026-11-01T10:00:00Z")
    unsaid = ADAPTER.status_of(job({"conditions": [condition("Suspended", "False")]}))
    assert not unsaid.suspended


def test_the_switch() -> None:
    """Conformance item ctl-44: suspending and releasing twice is the same as once."""
    assert ADAPTER.is_suspended(job(suspend=True))
    assert not ADAPTER.is_suspended(job(suspend=False))
    assert not ADAPTER.is_suspended(job())
    assert ADAPTER.suspend_patch(job()) == {"spec": {"suspend": True}}
    assert ADAPTER.release_patch(job(), {}) == {"spec": {"suspend": False}}


def test_a_release_annotates_the_template_in_the_same_patch() -> None:
    stamp = PodStamp(annotations={"a": "b"})
    assert ADAPTER.release_patch(job(), {"main": stamp}) == {
        "spec": {"suspend": False, "template": {"metadata": {"annotations": {"a": "b"}}}}
    }


def test_other_controllers_are_recognized() -> None:
    adapter = BatchJobAdapter()
    assert adapter.foreign_manager(job(managedBy="x.y/z")) == "x.y/z"
    assert adapter.foreign_manager(job(managedBy="kubernetes.io/job-controller")) == ""
    assert adapter.foreign_manager(job()) == ""


def test_priority_comes_from_the_template() -> None:
    of = job(template={"spec": {"priorityClassName": "high", "priority": 5}})
    source = ADAPTER.priority_of(of)
    assert (source.class_name, source.value) == ("high", 5)


def test_updates_reach_the_one_template() -> None:
    of = job()
    name = of.metadata.name
    spot = {"key": "spot", "operator": "Exists"}
    update = TemplateUpdate(
        labels={"a": "b"}, node_selector={"zone": None, "rack": "r"}, tolerations=(spot,)
    )
    assert BatchJobAdapter().update_patch(of, {name: update}) == {
        "spec": {
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"nodeSelector": {"zone": None, "rack": "r"}, "tolerations": [spot]},
            }
        }
    }
    assert BatchJobAdapter().update_patch(of, {"of-another": update}) == {}


def test_a_start_time_keeps_the_template_from_changing() -> None:
    assert BatchJobAdapter().status_to_clear(job({"startTime": "2026-11-01T10:00:00Z"})) == {
        "startTime": None
    }
    assert BatchJobAdapter().status_to_clear(job()) == {}
