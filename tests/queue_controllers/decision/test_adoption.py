"""Jobs that ran before the queue knew of them: the proof, and its conditions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from queue_controllers.decision.actions import CreateUnit, PatchUnitStatus
from queue_controllers.decision.decide import decide
from queue_controllers.decision.job_ownership import ClusterContext
from queue_controllers.decision.job_settings import Adopt, JobSettings
from queue_controllers.decision.job_state import PodCounts
from queue_controllers.decision.job_view import JobMemory, JobView
from queue_controllers.decision.pending import LATE_UNIT_SECONDS, keep_place
from queue_controllers.jobframework.generic_job import JobFacts, StatusFacts
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import QueueUnit, QueueUnitStatus
from shared_api.queue_unit_phases import SUSPEND_CONTESTED, is_adopted, occupies_quota
from shared_api.quota_names import NamedQuota, build_quota_names
from tests.job_situations import (
    ADMITTED,
    JOB,
    NOW,
    PROOF,
    RUNS,
    TWO_PENDING,
    TWO_RUNNING,
    action_names,
    evicted,
    facts,
    look,
    unit,
)

AT_BIRTH = replace(JOB, held_only_at_creation=True)
RUNNING = facts(suspended=False, status=RUNS)
BEFORE, SAME, AFTER = (f"2026-11-01T09:50:{second}Z" for second in ("29", "30", "31"))
MARK = {"koord-queue/adopted": "true"}


def made(of: QueueUnit) -> QueueUnit:
    """Return a unit that the API server created at half a minute past."""
    return replace(of, metadata=replace(of.metadata, creation_timestamp=Timestamp(SAME)))


def since(created: str, pods: PodCounts = TWO_RUNNING) -> PodCounts:
    return replace(pods, bound=pods.running, bound_since=created)


def born(job: JobFacts, generation: int, **changes: Any) -> JobFacts:
    meta = replace(job.metadata, generation=generation)
    return replace(job, metadata=meta, kind=AT_BIRTH, **changes)


ADOPTING = JobMemory(adopting=True)
NOT_THEIRS = ClusterContext(
    quotas=build_quota_names([NamedQuota("", "other", "gold", ())]), available_quotas=frozenset()
)


@pytest.mark.parametrize(
    ("job", "of", "more", "want"),
    [
        pytest.param(RUNNING, unit(), {"pods": since(BEFORE)}, "adopt", id="a pod is older"),
        pytest.param(
            RUNNING,
            unit(annotations=MARK),
            {"pods": since(BEFORE)},
            "adopt",
            id="written by an older version: by its pods",
        ),
        pytest.param(
            RUNNING,
            unit(annotations=MARK),
            {"pods": since(AFTER)},
            "suspend",
            id="marked by hand, and released out of turn",
        ),
        pytest.param(RUNNING, unit(), {"pods": since(SAME)}, "suspend", id="of the same second"),
        pytest.param(
            RUNNING, unit(), {"pods": TWO_PENDING}, "suspend", id="its older pods have no node"
        ),
        pytest.param(RUNNING, unit(), {"pods": TWO_PENDING}, "suspend", id="only terminating pods"),
        pytest.param(
            RUNNING, unit(), {"memory": ADOPTING}, "adopt", id="this process has just created it"
        ),
        pytest.param(
            facts(), unit(), {"memory": ADOPTING}, "write status", id="suspended before the proof"
        ),
        pytest.param(
            RUNNING,
            unit(conditions=evicted(status="False")),
            {"pods": since(BEFORE)},
            "suspend",
            id="it was evicted before",
        ),
        pytest.param(
            RUNNING,
            unit(conditions=(Condition(type=SUSPEND_CONTESTED, status="True"),)),
            {"pods": since(BEFORE)},
            "suspend",
            id="it was suspended before, and another client resumes it",
        ),
        pytest.param(
            RUNNING,
            unit("TimeoutBackoff", conditions=evicted()),
            {"pods": since(BEFORE)},
            "suspend",
            id="it backs off",
        ),
        pytest.param(
            RUNNING,
            unit(),
            {"pods": since(BEFORE), "settings": JobSettings(adopt=Adopt.NEVER)},
            "suspend",
            id="nothing is adopted",
        ),
        pytest.param(
            RUNNING, unit(active=False), {"pods": since(BEFORE)}, "suspend", id="inactive"
        ),
        pytest.param(
            born(RUNNING, 1), unit(), {}, "adopt", id="created so, and held then or never"
        ),
        pytest.param(born(RUNNING, 2), unit(), {}, "suspend", id="edited since it was created"),
        pytest.param(
            RUNNING,
            unit(annotations={"koord-queue/managed-by": ""}),
            {"pods": since(AFTER)},
            "patch unit",
            id="its managed mark is removed",
        ),
    ],
)
def test_which_jobs_are_adopted(
    job: JobFacts, of: QueueUnit, more: dict[str, Any], want: str
) -> None:
    assert next(iter(action_names(look(job, made(of), **more).actions)), "") == want


def status_after(of: QueueUnit, **more: Any) -> QueueUnit:
    """Return the unit after its adoption."""
    (write, *_) = look(RUNNING, of, memory=ADOPTING, **more).actions
    assert isinstance(write, PatchUnitStatus)
    status = {**msgspec.to_builtins(of.status), **write.status}
    return replace(of, status=msgspec.convert(status, QueueUnitStatus))


def test_the_proof_charges_the_whole_request_to_the_jobs_quota() -> None:
    after = status_after(unit(), pods=TWO_RUNNING)
    assert (after.status.phase, occupies_quota(after), is_adopted(after)) == ("Running", True, True)
    (granted,) = after.status.admissions
    assert (granted.name, granted.replicas, granted.running) == ("main", 2, 2)
    assert granted.resources == {"cpu": "2"}
    placement = after.status.placement
    assert placement is not None
    assert placement.quota == "gold"
    assert placement.labels == {"quota.scheduling.koordinator.sh/name": "gold"}


def test_edits_of_the_unit_are_undone_before_the_proof() -> None:
    of = unit()
    moved = {"quota.scheduling.koordinator.sh/name": "bronze"}
    of = replace(of, metadata=replace(of.metadata, labels=moved))
    decision = look(RUNNING, of, memory=ADOPTING)
    assert (action_names(decision.actions), decision.memory.adopting) == (["patch unit"], True)


def test_pods_are_ready_only_when_one_runs() -> None:
    def ready(of: QueueUnit) -> str:
        return next(each.status for each in of.status.conditions if each.type == "PodsReady")

    starts = facts(suspended=False, status=StatusFacts())
    after = status_after(unit(), pods=TWO_PENDING)
    assert ready(after) == "False"
    assert action_names(look(starts, after, pods=TWO_PENDING).actions) == []
    (write,) = look(RUNNING, after, pods=TWO_RUNNING, memory=JobMemory()).actions
    assert isinstance(write, PatchUnitStatus)
    shown = {each["type"]: each["status"] for each in write.status["conditions"]}
    assert (shown["PodsReady"], shown["Adopted"]) == ("True", "True")


def test_the_unit_is_created_first_without_the_proof() -> None:
    decision = look(RUNNING, pods=TWO_RUNNING)
    (create,) = decision.actions
    assert isinstance(create, CreateUnit)
    assert "status" not in create.body
    assert "adopted" not in str(create.body["metadata"])
    assert decision.memory.adopting


def test_without_access_to_the_quota_it_is_left_alone_and_warned_once() -> None:
    view = JobView(job=RUNNING, pods=TWO_RUNNING, moment=NOW, context=NOT_THEIRS)
    first = decide(view)
    assert action_names(first.actions) == ["event NotAdopted"]
    assert decide(replace(view, memory=first.memory)).actions == ()
    waits = JobView(job=facts(), moment=NOW, context=NOT_THEIRS)
    assert action_names(decide(waits).actions) == ["create"], "the scheduler judges"


@pytest.mark.parametrize("memory", [JobMemory(), ADOPTING], ids=["a pod is older", "made just now"])
def test_nor_is_it_adopted_or_stopped_where_its_unit_exists(memory: JobMemory) -> None:
    of = made(unit())
    view = JobView(job=RUNNING, unit=of, pods=since(BEFORE), moment=NOW, memory=memory)
    first = decide(replace(view, context=NOT_THEIRS))
    assert action_names(first.actions) == ["event NotAdopted"]
    again = replace(view, memory=first.memory)
    assert decide(replace(again, context=NOT_THEIRS)).actions == ()
    assert PROOF.type in str(decide(again).actions), "its namespace may use it now"


def test_a_unit_that_an_older_version_adopted_is_charged_as_now() -> None:
    of = unit("Running")
    (write,) = look(RUNNING, of, pods=TWO_RUNNING).actions
    assert isinstance(write, PatchUnitStatus)
    assert "phase" not in write.status
    assert [each["replicas"] for each in write.status["admissions"]] == [2]
    assert PROOF.type in {each["type"] for each in write.status["conditions"]}
    admitted = look(RUNNING, unit("Running", admissions=ADMITTED), pods=TWO_RUNNING)
    assert admitted.actions == (), "one that the scheduler admitted"


@pytest.mark.parametrize(
    ("created", "want"),
    [
        pytest.param("2026-11-01T09:50:00Z", "2026-11-01T09:50:00Z", id="made again, or late"),
        pytest.param("2026-11-01T09:50:26Z", None, id="a moment after its job"),
        pytest.param("2026-11-01T09:51:00Z", None, id="before its job, by another clock"),
        pytest.param("", None, id="nobody knows"),
    ],
)
def test_a_late_unit_keeps_its_jobs_place(created: str, want: str | None) -> None:
    job = facts()
    job = replace(job, metadata=replace(job.metadata, creation_timestamp=Timestamp(created)))
    kept = keep_place(JobView(job=job, moment=NOW), job, made(unit()))
    (write,) = (None,) if kept is None else kept.actions
    assert write is None or isinstance(write, PatchUnitStatus)
    assert (None if write is None else write.status["jobCreationTimestamp"]) == want
    assert LATE_UNIT_SECONDS > 1, "in order it comes a second later"


def test_a_place_is_written_once_even_if_the_crd_drops_it() -> None:
    first = look(facts(), made(unit()))
    assert action_names(first.actions) == ["write status"]
    assert look(facts(), made(unit()), memory=first.memory).actions == ()
