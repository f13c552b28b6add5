"""Which released jobs without pods are reported, which are evicted, and when."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.actions import EventType, PatchUnitStatus, RecordJobEvent
from queue_controllers.decision.job_ownership import Ownership
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_state import PodCounts
from queue_controllers.decision.job_view import Decision, JobMemory
from queue_controllers.decision.pods_not_ready import first_requeue_seconds, pod_creation_timeout
from queue_controllers.jobframework.generic_job import StatusFacts
from queue_controllers.jobframework.pod_scheduling import NoNodeReason, Unschedulable
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import QueueUnit
from tests.job_situations import (
    ADMITTED,
    HELD,
    JOB,
    NOW,
    RELEASED,
    RUNS,
    SUCCEEDED,
    TEN,
    action_names,
    facts,
    look,
    unit,
)

QUICK = msgspec.structs.replace(JOB, makes_pods_at_once=True)
GATED = msgspec.structs.replace(QUICK, held_by_gates=True)
EVICTED = ["write status", "RecordUnitEvent"]
NO_POD = Condition(
    type="PodsReady",
    status="False",
    reason="NoPods",
    message="No pod of it exists: FailedCreate: not here. If none comes within 300 s, it ...",
    last_transition_time=TEN,
)
READY = Condition(type="PodsReady", status="True", reason="PodsRunning", last_transition_time=TEN)


def released(**changes: Any) -> Any:
    """Return a job that was released nine minutes ago."""
    usual: dict[str, Any] = {"kind": QUICK, "annotations": RELEASED, "suspended": False}
    return facts(**{**usual, "status": RUNS, **changes})


def starting(*conditions: Condition, phase: str = "Dequeued", **changes: Any) -> QueueUnit:
    return unit(phase, admissions=ADMITTED, conditions=conditions, **changes)


def written(decision: Decision) -> Condition | None:
    """Return the written condition about pods, None where none is."""
    writes = (each for each in decision.actions if isinstance(each, PatchUnitStatus))
    said = [each for write in writes for each in write.status.get("conditions", ())]
    found = [each for each in said if each["type"] == "PodsReady"]
    return msgspec.convert(found[0], Condition) if found else None


def events(decision: Decision) -> list[RecordJobEvent]:
    """Return the warnings on the job."""
    found = [each for each in decision.actions if isinstance(each, RecordJobEvent)]
    return [each for each in found if each.type is EventType.WARNING]


@pytest.mark.parametrize(
    ("job", "of", "more", "want"),
    [
        pytest.param(released(), starting(NO_POD), {}, EVICTED, id="it had none in its time"),
        pytest.param(released(kind=JOB), starting(NO_POD), {}, [], id="of a slow kind"),
        pytest.param(
            released(kind=JOB),
            starting(NO_POD),
            {"settings": JobSettings(pod_creation_timeout_seconds=60.0)},
            EVICTED,
            id="of such a kind, by a setting",
        ),
        pytest.param(
            released(annotations={**RELEASED, "koord-queue/pod-creation-timeout": "20m"}),
            starting(NO_POD),
            {},
            [],
            id="it has more time by annotation",
        ),
        pytest.param(
            released(annotations={**RELEASED, "koord-queue/pod-creation-timeout": "0"}),
            starting(NO_POD),
            {},
            [],
            id="it has unlimited time by annotation",
        ),
        pytest.param(released(count=0), starting(NO_POD), {}, [], id="it wants no pods"),
        pytest.param(
            released(status=StatusFacts(outcome=SUCCEEDED)),
            starting(NO_POD),
            {},
            ["move Succeed"],
            id="it has ended",
        ),
        pytest.param(
            released(status=StatusFacts(running=True, pods=1)),
            starting(),
            {},
            [],
            id="its operator reports a pod that is not seen yet",
        ),
        pytest.param(released(), starting(NO_POD, adopted=True), {}, [], id="adopted"),
        pytest.param(
            released(),
            starting(NO_POD),
            {"ownership": Ownership(managed=False, reason="it is another's")},
            ["event NotManaged"],
            id="not managed any more",
        ),
        pytest.param(released(), starting(READY, phase="Running"), {}, [], id="it has run"),
        pytest.param(
            released(suspended=True, status=HELD), starting(NO_POD), {}, ["release"], id="suspended"
        ),
    ],
)
def test_which_jobs_are_evicted(
    job: Any, of: QueueUnit, more: dict[str, Any], want: list[str]
) -> None:
    actions = action_names(look(job, of, **more).actions)
    assert [each for each in actions if each != "event Resumed"] == want


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        pytest.param(0.0, (False, 10.0), id="just released"),
        pytest.param(9.0, (False, 1.0), id="seconds later"),
        pytest.param(10.0, (True, None), id="the reason is looked up"),
    ],
)
def test_when_the_reason_is_looked_up(seconds: float, want: tuple[bool, float | None]) -> None:
    at = NOW.after(-540.0 + seconds)
    decision = look(released(), starting(), moment=at, memory=JobMemory(first_release=at.wall))
    assert (decision.needs_events, decision.requeue_after_seconds) == want


def test_the_reason_is_looked_up_once_and_reported() -> None:
    memory = JobMemory(first_release=NOW.wall, events_read_at=NOW.wall, why="FailedCreate: no")
    decision = look(released(), starting(), memory=memory)
    assert not decision.needs_events
    said = written(decision)
    assert said is not None
    assert (said.status, said.reason) == ("False", "NoPods")
    assert said.message.startswith("No pod of it exists: FailedCreate: no. If none comes within")


def test_controllers_that_start_later_count_from_then() -> None:
    """The time before that is unknown, unless the unit records it."""
    first = look(released(), starting())
    assert (first.needs_events, first.requeue_after_seconds) == (False, 10.0)
    assert look(released(), starting(), memory=first.memory, moment=NOW.after(10.0)).needs_events


def test_the_time_is_that_of_the_unit_after_a_restart() -> None:
    job = released(annotations={**RELEASED, "koord-queue/pod-creation-timeout": "10m"})
    assert look(job, starting(NO_POD)).requeue_after_seconds == 60.0


@pytest.mark.parametrize(
    ("why", "seconds", "phase", "want"),
    [
        pytest.param(NoNodeReason.QUOTA, 59.0, "Dequeued", None, id="not a minute yet"),
        pytest.param(
            NoNodeReason.QUOTA,
            60.0,
            "Dequeued",
            ("False", "are refused by their quota: x"),
            id="quota",
        ),
        pytest.param(NoNodeReason.NODES, 60.0, "Dequeued", ("False", "fit no node: x"), id="nodes"),
        pytest.param(
            NoNodeReason.OTHER, 60.0, "Dequeued", ("False", "have no node: x"), id="others"
        ),
        pytest.param(
            NoNodeReason.NODES,
            60.0,
            "Running",
            ("True", "fit no node: x"),
            id="its clock runs on",
        ),
    ],
)
def test_pods_without_a_node(
    why: NoNodeReason, seconds: float, phase: str, want: tuple[str, str] | None
) -> None:
    refusal = Unschedulable(Timestamp("2026-11-01T10:00:00Z"), why, "x")
    pods = PodCounts(total=2, living=2, unschedulable=(refusal,))
    of = starting(READY, phase="Running") if phase == "Running" else starting()
    decision = look(released(), of, pods=pods, moment=NOW.after(seconds))
    said = written(decision)
    if want is None:
        assert (said, decision.requeue_after_seconds) == (None, 1.0)
        return
    assert said is not None
    assert (said.status, said.reason) == (want[0], "PodsUnschedulable")
    assert said.message == f"For more than a minute pods of it {want[1]}"
    assert said.last_transition_time == (TEN if phase == "Running" else NOW.after(60.0).stamp)
    assert [(each.reason, each.message) for each in events(decision)] == [
        ("PodsUnschedulable", said.message)
    ]
    assert action_names(decision.actions)[0] == "write status", (
        "before the event, which depends on it"
    )
    again = starting(said, phase=phase)
    later = look(released(), again, pods=pods, moment=NOW.after(90.0))
    assert (written(later), events(later)) == (None, []), "said once, also after a restart"


REFUSED = Unschedulable(Timestamp("2026-11-01T09:00:00Z"), NoNodeReason.QUOTA, "x")
SOME_RUN = PodCounts(total=2, living=2, running=1, unschedulable=(REFUSED,))
ALL_RUN = PodCounts(total=2, living=2, running=2)


def test_a_refusal_is_one_event_though_the_unit_drops_it_as_its_first_pod_runs() -> None:
    none_runs = PodCounts(total=2, living=2, unschedulable=(REFUSED,))
    first = look(released(), starting(), pods=none_runs)
    assert len(events(first)) == 1
    ready = starting(READY, phase="Running")
    second = look(released(), ready, pods=SOME_RUN, memory=first.memory)
    assert written(second) is not None
    assert events(second) == []
    said = written(second)
    assert said is not None
    over = look(released(), starting(said, phase="Running"), pods=ALL_RUN, memory=second.memory)
    third = look(released(), ready, pods=SOME_RUN, memory=over.memory)
    assert len(events(third)) == 1, "it is another refusal"


def test_a_refusal_that_is_found_as_the_unit_moves_to_running_is_told_after_that() -> None:
    moves = look(
        released(status=StatusFacts(running=True, pods=2)),
        starting(),
        pods=SOME_RUN,
        memory=JobMemory(running_since=NOW.monotonic - 1.0),
    )
    assert action_names(moves.actions) == ["move Running"]
    after = look(released(), starting(READY, phase="Running"), pods=SOME_RUN, memory=moves.memory)
    assert len(events(after)) == 1


def test_a_condition_changes_no_time_that_others_depend_on() -> None:
    """The time when counts were written is the start of their validity (`missing_pods`)."""
    refusal = Unschedulable(Timestamp("2026-11-01T09:00:00Z"), NoNodeReason.NODES, "x")
    decision = look(
        released(),
        starting(READY, phase="Running"),
        pods=PodCounts(total=2, living=2, unschedulable=(refusal,)),
    )
    write = decision.actions[0]
    assert isinstance(write, PatchUnitStatus)
    assert set(write.status) == {"conditions"}


def test_which_kinds_are_checked_and_when() -> None:
    slow = msgspec.structs.replace(JOB, nudge_seconds=30.0)
    looks = [first_requeue_seconds(each) for each in (QUICK, JOB, slow, GATED)]
    assert looks == [10.0, 60.0, 30.0, None]
    times = [pod_creation_timeout(facts(kind=each), JobSettings()) for each in (QUICK, JOB)]
    assert times == [300.0, 0.0]
