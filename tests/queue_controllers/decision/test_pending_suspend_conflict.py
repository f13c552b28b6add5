"""Jobs that another client keeps resuming: each time they are suspended again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.actions import (
    PatchUnitStatus,
    RecordJobEvent,
    ReleaseJob,
    SuspendJob,
)
from queue_controllers.decision.job_state import NO_PODS, PodCounts
from queue_controllers.decision.job_view import JobMemory, LostUnit
from queue_controllers.decision.pending import read_lost
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.objects.meta import Condition, Timestamp, find_condition
from shared_api.objects.queue_unit import QueueUnit, QueueUnitStatus
from shared_api.queue_unit_phases import EVICTED, contested_since
from shared_api.well_known_labels import ACTIVE, LIMIT_REACHED
from tests.job_situations import (
    ADMITTED,
    NOW,
    RELEASED,
    RUNS,
    TWO_PENDING,
    TWO_RUNNING,
    TWO_TERMINATING,
    action_names,
    evicted,
    facts,
    look,
    unit,
)

MOST_LOOKS = 5
AT_LIMIT = Condition(type="BackoffLimitReached", status="True", reason="BackoffLimitReached")


class Life:
    """A job in the queue and its unit, changed by other clients and by the decisions."""

    def __init__(self) -> None:
        self.job: JobFacts = facts()
        self.pods: PodCounts = NO_PODS
        self.unit: QueueUnit = unit()
        self.memory = JobMemory()
        self.now = NOW

    def happen(self, event: str) -> list[str]:
        """Apply a change, decide until nothing more is to do; return what was done."""
        match event:
            case "unsuspended":
                self.job, self.pods = facts(suspended=False, status=RUNS), TWO_PENDING
            case "runs":
                self.job = facts(suspended=False, status=RUNS, annotations=RELEASED)
                self.pods = TWO_RUNNING
            case "stops":
                self.job, self.pods = facts(annotations=RELEASED), NO_PODS
            case "admitted":
                self._set_status({"phase": "Dequeued", "admissions": msgspec.to_builtins(ADMITTED)})
            case "evicted":
                others = [each for each in self.unit.status.conditions if each.type != EVICTED]
                self._set_status({"conditions": msgspec.to_builtins([*others, *evicted()])})
            case "restart":
                self.memory = JobMemory()
            case "a minute passes":
                self.now = self.now.after(60.0)
            case _:
                raise AssertionError(event)
        self.now = self.now.after(2.0)
        done: list[str] = []
        for _ in range(MOST_LOOKS):
            if not (names := self._look()):
                return done
            done += names
        raise AssertionError(f"no end: {done}")

    def _look(self) -> list[str]:
        decision = look(self.job, self.unit, pods=self.pods, memory=self.memory, moment=self.now)
        self.memory = decision.memory
        for action in decision.actions:
            if isinstance(action, PatchUnitStatus):
                self._set_status(dict(action.status))
            elif isinstance(action, SuspendJob):
                self.job, self.pods = facts(status=RUNS), TWO_TERMINATING
            elif isinstance(action, ReleaseJob):
                self.job = facts(suspended=False, annotations=RELEASED)
        return action_names(decision.actions)

    def _set_status(self, change: dict[str, object]) -> None:
        status = msgspec.convert(
            {**msgspec.to_builtins(self.unit.status), **change}, QueueUnitStatus
        )
        self.unit = msgspec.structs.replace(self.unit, status=status)


AGAIN = ["suspend", "event SuspendedAgain"]
QUIETLY = ["suspend"]
TO_THE_END = ["suspend", "write status", "event SuspendContested"]
SUSPENDED = ["suspend", "event Preempted"]
HAPPENS = "unsuspended"


@pytest.mark.parametrize(
    "life",
    [
        pytest.param(
            [
                (HAPPENS, AGAIN),
                (HAPPENS, QUIETLY),
                (HAPPENS, TO_THE_END),
                (HAPPENS, QUIETLY),
                (HAPPENS, QUIETLY),
                (HAPPENS, QUIETLY),
                ("a minute passes", []),
                (HAPPENS, AGAIN),
                (HAPPENS, QUIETLY),
                (HAPPENS, TO_THE_END),
            ],
            id="in the queue: it is suspended each time, with an event once a minute",
        ),
        pytest.param(
            [
                (HAPPENS, AGAIN),
                (HAPPENS, QUIETLY),
                (HAPPENS, TO_THE_END),
                ("stops", []),
                ("admitted", ["release"]),
                ("evicted", SUSPENDED),
                ("stops", ["move Enqueued"]),
                ("a minute passes", []),
                (HAPPENS, AGAIN),
            ],
            id="admitted, and evicted before it runs: it is released and requeued",
        ),
        pytest.param(
            [
                (HAPPENS, AGAIN),
                ("restart", []),
                (HAPPENS, AGAIN),
                ("restart", []),
                (HAPPENS, AGAIN),
            ],
            id="a restart forgets how often, and suspends it",
        ),
        pytest.param(
            [
                ("admitted", ["release"]),
                ("runs", ["move Running"]),
                ("evicted", SUSPENDED),
                (HAPPENS, AGAIN),
                (HAPPENS, QUIETLY),
                (HAPPENS, TO_THE_END),
                (HAPPENS, QUIETLY),
                ("stops", ["move Enqueued"]),
            ],
            id="its eviction is contested: it is carried out regardless",
        ),
    ],
)
def test_a_contested_job(life: list[tuple[str, list[str]]]) -> None:
    job = Life()
    assert [(event, job.happen(event)) for event, _ in life] == life


def contest(job: Life) -> Condition | None:
    return find_condition(job.unit.status.conditions, "SuspendContested")


def test_the_place_is_lost_until_the_job_runs_in_its_turn() -> None:
    job = Life()
    times = []
    for events in ((HAPPENS,) * 3, ("stops",), ("a minute passes", *(HAPPENS,) * 3)):
        for event in events:
            job.happen(event)
        times.append(contested_since(job.unit))
    assert times[0] == times[1], "waiting does not restore it"
    assert times[0] < times[2], "each time it goes behind units that have arrived since"
    for event in ("stops", "admitted", "evicted", "stops"):
        job.happen(event)
    assert contested_since(job.unit) == times[2], "nor does an eviction"
    job.happen("admitted")
    job.happen("runs")
    found = contest(job)
    assert found is not None
    assert (found.status, contested_since(job.unit)) == ("False", "")


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        pytest.param((), "UnsuspendedByOthers", id="in the queue"),
        pytest.param(("admitted", "runs", "evicted"), "EvictionContested", id="evicted"),
    ],
)
def test_the_condition_describes_the_conflict(events: tuple[str, ...], reason: str) -> None:
    job = Life()
    for event in (*events, *(HAPPENS,) * 3):
        job.happen(event)
    found = contest(job)
    assert found is not None
    assert found.reason == reason
    assert "end of its queue" in found.message


def test_it_is_written_once_a_second_at_most() -> None:
    job, memory, done = facts(suspended=False, status=RUNS), JobMemory(), []
    for tenths in range(31):
        decision = look(job, unit(), memory=memory, moment=NOW.after(tenths / 10))
        memory = decision.memory
        done += [(tenths, each) for each in action_names(decision.actions) if each == "suspend"]
        if not decision.actions:
            rest = decision.requeue_after_seconds
            assert rest == pytest.approx(1.0 - (tenths % 10) / 10), (
                "it is reconciled when it may be"
            )
    assert [tenths for tenths, _ in done] == [0, 10, 20, 30]


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(
            unit(),
            "Suspended again: queue gold has not admitted it yet."
            " When it is its turn, the queue resumes it",
            id="in the queue",
        ),
        pytest.param(
            unit(active=False),
            "Suspended again: its queue unit is not active."
            ' To have it run, annotate the job scheduling.x-k8s.io/active: "true"',
            id="deactivated",
        ),
        pytest.param(
            unit(active=False, annotations={LIMIT_REACHED: "true"}, conditions=(AT_LIMIT,)),
            "Suspended again: its queue unit is not active."
            ' To have it run, annotate the job scheduling.x-k8s.io/active: "false", then "true"',
            id="deactivated at its limit, contrary to the annotation",
        ),
    ],
)
def test_a_user_that_resumes_a_job_is_told_how_to_run_it(of: QueueUnit, want: str) -> None:
    said = {ACTIVE: "true"} if LIMIT_REACHED in of.metadata.annotations else {}
    _, event = look(facts(suspended=False, status=RUNS, annotations=said), of).actions
    assert isinstance(event, RecordJobEvent)
    assert event.message == want


CONTESTED = Condition(
    type="SuspendContested",
    status="True",
    reason="UnsuspendedByOthers",
    last_transition_time=Timestamp("2026-11-01T10:00:07Z"),
)
OVER = msgspec.structs.replace(CONTESTED, status="False")


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(unit(), LostUnit(waited=True), id="waited"),
        pytest.param(
            unit(conditions=(CONTESTED,)),
            LostUnit(waited=True, contested=CONTESTED),
            id="waited at the end of its queue",
        ),
        pytest.param(unit(conditions=(OVER,)), LostUnit(waited=True), id="has had its turn"),
        pytest.param(
            unit("Dequeued", admissions=ADMITTED, conditions=(CONTESTED,)),
            LostUnit(contested=CONTESTED),
            id="admitted, and does not run yet",
        ),
        pytest.param(unit("Running", admissions=ADMITTED), None, id="ran in its turn"),
        pytest.param(unit("Failed", conditions=(CONTESTED,)), None, id="has ended"),
    ],
)
def test_which_state_of_a_deleted_unit_counts(of: QueueUnit, want: LostUnit | None) -> None:
    assert read_lost(of) == want


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param((), ["write status"], id="not written yet"),
        pytest.param((CONTESTED,), [], id="said"),
        pytest.param((OVER,), [], id="it has had its turn since"),
    ],
)
def test_the_next_unit_is_moved_there_once(conditions: Any, want: list[str]) -> None:
    lost = LostUnit(contested=CONTESTED)
    actions = look(facts(), unit(conditions=conditions), lost=lost).actions
    assert [each for each in action_names(actions) if each == "write status"] == want
