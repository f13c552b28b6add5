"""The mark of the queue on a job: which jobs get one by a write of its own, and which lose it."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from queue_controllers.decision.actions import Action, MarkJob, ReleaseJob, SuspendJob
from queue_controllers.decision.job_ownership import ClusterContext, Ownership
from queue_controllers.decision.job_view import JobMemory
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.well_known_labels import GRANTED_COUNT, MARKED_UID, QUOTA_NAME, SUSPEND
from tests.job_situations import (
    ADMITTED,
    JOB,
    RELEASED,
    RUNS,
    TWO_RUNNING,
    action_names,
    facts,
    look,
    unit,
)

MARKED: Final = {MARKED_UID: "uid-1"}
NOTHING_SAID: Final[dict[str, str]] = {}
IN_NAMESPACE: Final = ClusterContext(namespace_labels={"koord-queue/managed": "true"})
NESTED: Final = Ownership(managed=False, reason="JobSet a owns it", nested=True)
HELD_WITH_OWNER: Final = msgspec.structs.replace(NESTED, held_by_owner=True)


def job(**changes: Any) -> JobFacts:
    """Return a held Job of two pods about which nothing says that it is queued."""
    basic = facts(**{"labels": NOTHING_SAID, **changes})
    sized = tuple(msgspec.structs.replace(each, is_sized=True) for each in basic.pod_sets)
    return msgspec.structs.replace(basic, pod_sets=sized)


def marks(of: JobFacts, *args: Any, **more: Any) -> list[MarkJob]:
    return [each for each in look(of, *args, **more).actions if isinstance(each, MarkJob)]


RUNS_FREELY: Final = {"suspended": False, "status": RUNS, "annotations": RELEASED}
RUNNING = unit("Running", admissions=ADMITTED)
HELD: Final = [MarkJob(marked=True)]


@pytest.mark.parametrize(
    ("of", "args", "more", "want"),
    [
        pytest.param(job(), [], {}, HELD, id="held, without a unit yet"),
        pytest.param(job(), [unit()], {}, HELD, id="it waits"),
        pytest.param(job(annotations=MARKED), [unit()], {}, [], id="it has its mark"),
        pytest.param(
            job(annotations={MARKED_UID: "uid-0"}), [unit()], {}, HELD, id="that of another"
        ),
        pytest.param(job(labels={QUOTA_NAME: "gold"}), [unit()], {}, [], id="it names a quota"),
        pytest.param(job(annotations={SUSPEND: "true"}), [unit()], {}, [], id="it asks itself"),
        pytest.param(job(), [unit()], {"context": IN_NAMESPACE}, [], id="its namespace asks"),
        pytest.param(
            job(**RUNS_FREELY),
            [RUNNING],
            {"pods": TWO_RUNNING},
            [MarkJob(marked=True, granted=2)],
            id="released by an older version, or adopted",
        ),
        pytest.param(
            job(why_not_suspendable=".spec.x"), [], {}, [], id="it cannot be held: left alone"
        ),
        pytest.param(
            job(deletion_timestamp="2026-11-26T10:00:00Z"), [unit()], {}, [], id="being deleted"
        ),
        pytest.param(
            job(),
            [unit()],
            {"memory": JobMemory(reported_events=frozenset({"MarkRefused"}))},
            [],
            id="the server has refused it before",
        ),
    ],
)
def test_a_job_is_marked_if_nothing_else_tells(
    of: JobFacts, args: list[Any], more: dict[str, Any], want: list[MarkJob]
) -> None:
    assert marks(of, *args, **more) == want


def one(actions: tuple[Action, ...], kind: type[Action]) -> Any:
    return next(each for each in actions if isinstance(each, kind))


def test_the_mark_is_the_last_write_of_a_decision() -> None:
    assert action_names(look(job()).actions) == ["create", "MarkJob"]


def test_suspension_and_release_mark_a_job_themselves() -> None:
    for labels in (NOTHING_SAID, {QUOTA_NAME: "gold"}):
        starts = look(job(labels=labels, suspended=False), memory=JobMemory(arrived=True)).actions
        assert action_names(starts) == ["suspend", "create"]
        assert one(starts, SuspendJob).mark
    named = job(labels={QUOTA_NAME: "gold"})
    ready = look(named, unit("Dequeued", admissions=ADMITTED)).actions
    assert action_names(ready) == ["release"]
    assert one(ready, ReleaseJob).granted == 2


def test_no_grant_is_noted_where_several_fields_count_pods() -> None:
    ready = look(facts(), unit("Dequeued", admissions=ADMITTED)).actions
    assert one(ready, ReleaseJob).granted is None


@pytest.mark.parametrize(
    ("of", "args", "ownership", "want"),
    [
        pytest.param(job(annotations=MARKED), [], NESTED, ["MarkJob"], id="it is an owner's"),
        pytest.param(
            job(annotations=MARKED),
            [unit()],
            NESTED,
            ["DeleteUnit", "event NotManaged", "MarkJob"],
            id="its unit goes with it",
        ),
        pytest.param(
            job(annotations=MARKED | RELEASED, suspended=False, status=RUNS),
            [RUNNING],
            NESTED,
            ["event NotManaged"],
            id="what it runs is charged: not yet",
        ),
        pytest.param(
            job(annotations=MARKED), [], HELD_WITH_OWNER, ["MarkJob"], id="its owner is held"
        ),
        pytest.param(job(), [], NESTED, [], id="it has none"),
    ],
)
def test_what_the_queue_gives_up_loses_its_mark(
    of: JobFacts, args: list[Any], ownership: Ownership, want: list[str]
) -> None:
    actions = look(of, *args, ownership=ownership, pods=TWO_RUNNING).actions
    assert action_names(actions) == want
    assert all(not each.marked for each in actions if isinstance(each, MarkJob))


def test_a_pod_that_says_so_itself_is_left_alone() -> None:
    """Pods are held by their gate, and no policy keeps users from annotating them."""
    of_pods = msgspec.structs.replace(JOB, held_by_gates=True)
    pod = msgspec.structs.replace(job(annotations=MARKED), kind=of_pods)
    assert marks(pod, ownership=NESTED) == []


def test_a_child_that_is_held_with_its_owner_is_not_marked() -> None:
    """Its operator, which resumes it, may not release what the queue holds."""
    runs = job(suspended=False, annotations={GRANTED_COUNT: "2"})
    memory = JobMemory(unproved_since=0.0)
    actions = look(runs, ownership=HELD_WITH_OWNER, memory=memory).actions
    assert not one(actions, SuspendJob).mark
