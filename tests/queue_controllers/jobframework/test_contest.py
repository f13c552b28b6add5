"""Jobs that somebody keeps running against the queue: what happens to them as they go on."""

from __future__ import annotations

import msgspec
import pytest

from queue_controllers.jobframework.actions import PatchUnitStatus, ReleaseJob, SuspendJob, TellJob
from queue_controllers.jobframework.generic_job import JobFacts
from queue_controllers.jobframework.job_machine import NO_PODS, PodFacts
from queue_controllers.jobframework.job_view import JobMemory
from shared_api.objects.meta import Condition
from shared_api.objects.queue_unit import QueueUnit, QueueUnitStatus
from shared_api.queue_unit_phases import EVICTED
from shared_api.well_known_labels import ACTIVE, LIMIT_REACHED
from tests.job_situations import (
    ADMITTED,
    NOW,
    RELEASED,
    RUNS,
    TWO_PENDING,
    TWO_RUNNING,
    TWO_TERMINATING,
    evicted,
    facts,
    look,
    told,
    unit,
)

MOST_LOOKS = 5
AT_LIMIT = Condition(type="BackoffLimitReached", status="True", reason="BackoffLimitReached")


class Life:
    """A job in line and its unit, as others change them and what is decided does."""

    def __init__(self) -> None:
        self.job: JobFacts = facts()
        self.pods: PodFacts = NO_PODS
        self.unit: QueueUnit = unit()
        self.memory = JobMemory()

    def happen(self, event: str) -> list[str]:
        """Let something happen, look until nothing more is to do; return what was done."""
        match event:
            case "unsuspended":
                self.job, self.pods = facts(suspended=False, status=RUNS), TWO_PENDING
            case "runs":
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
            case _:
                raise AssertionError(event)
        done: list[str] = []
        for _ in range(MOST_LOOKS):
            if not (names := self._look()):
                return done
            done += names
        raise AssertionError(f"no end: {done}")

    def _look(self) -> list[str]:
        decision = look(self.job, self.unit, pods=self.pods, memory=self.memory, moment=NOW)
        self.memory = decision.memory
        for action in decision.actions:
            if isinstance(action, PatchUnitStatus):
                self._set_status(dict(action.status))
            elif isinstance(action, SuspendJob):
                self.job, self.pods = facts(status=RUNS), TWO_TERMINATING
            elif isinstance(action, ReleaseJob):
                self.job = facts(suspended=False, annotations=RELEASED)
        return told(decision.actions)

    def _set_status(self, change: dict[str, object]) -> None:
        status = msgspec.convert(
            {**msgspec.to_builtins(self.unit.status), **change}, QueueUnitStatus
        )
        self.unit = msgspec.structs.replace(self.unit, status=status)


AGAIN = ["suspend", "tell SuspendedAgain"]
GIVEN_UP = ["write status", "tell SuspendContested"]
SUSPENDED = ["suspend", "tell Preempted"]


@pytest.mark.parametrize(
    "life",
    [
        pytest.param(
            [
                ("unsuspended", AGAIN),
                ("unsuspended", AGAIN),
                ("unsuspended", GIVEN_UP),
                ("admitted", []),
                ("evicted", SUSPENDED),
                ("stops", ["move Enqueued"]),
                ("unsuspended", AGAIN),
            ],
            id="contested in line, admitted, evicted before it runs: it is freed, and waits again",
        ),
        pytest.param(
            [
                ("unsuspended", AGAIN),
                ("unsuspended", AGAIN),
                ("unsuspended", GIVEN_UP),
                ("restart", []),
                ("admitted", []),
                ("restart", []),
                ("evicted", SUSPENDED),
                ("restart", []),
                ("stops", ["move Enqueued", "tell Preempted"]),
            ],
            id="the same with restarts",
        ),
        pytest.param(
            [
                ("admitted", ["release"]),
                ("unsuspended", []),
                ("evicted", SUSPENDED),
                ("unsuspended", AGAIN),
                ("unsuspended", AGAIN),
                ("unsuspended", GIVEN_UP),
                ("restart", []),
                ("runs", ["move Running"]),
                ("restart", []),
                ("stops", ["move Enqueued", "tell Preempted"]),
            ],
            id="its eviction is contested: it is booked, seen to run, and freed when it stops",
        ),
    ],
)
def test_a_contested_job(life: list[tuple[str, list[str]]]) -> None:
    job = Life()
    assert [(event, job.happen(event)) for event, _ in life] == life


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(
            unit(),
            "Suspended again: queue gold has not admitted it yet."
            " When it is its turn, the queue resumes it",
            id="in line",
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
            id="deactivated at its limit, against what the annotation says",
        ),
    ],
)
def test_who_turns_a_job_on_is_told_what_makes_it_run(of: QueueUnit, want: str) -> None:
    said = {ACTIVE: "true"} if LIMIT_REACHED in of.metadata.annotations else {}
    _, event = look(facts(suspended=False, status=RUNS, annotations=said), of).actions
    assert isinstance(event, TellJob)
    assert event.message == want
