"""Releases of admitted jobs, and clients that undo them."""

from __future__ import annotations

import msgspec
import pytest

from queue_controllers.decision.actions import PatchUnitStatus, RecordJobEvent, ReleaseJob
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_state import NO_PODS
from queue_controllers.decision.job_view import Decision, JobMemory
from queue_controllers.decision.release import (
    MAX_SUSPENSIONS,
    REST_SECONDS,
    SUSPENSIONS_SECONDS,
)
from queue_controllers.jobframework.generic_job import JobFacts, StatusFacts
from shared_api.objects.queue_unit import Admission, QueueUnit
from shared_api.well_known_labels import ACTIVE, RELEASED_AT
from tests.job_situations import (
    ADMITTED,
    NOW,
    RUNS,
    TEN,
    TWO_RUNNING,
    action_names,
    facts,
    look,
    unit,
)

EVICTED = ["write status", "RecordUnitEvent"]
ADMITTED_AT = NOW.stamp


class Tug:
    """An admitted job that another client suspends as soon as it is released."""

    def __init__(self, *, timeout: float = 0.0, every: float, phase: str = "Dequeued") -> None:
        self.settings = JobSettings(running_timeout_seconds=timeout)
        self.every = every
        self.unit: QueueUnit = unit(phase, admissions=ADMITTED, last_allocate_time=ADMITTED_AT)
        self.job: JobFacts = facts(status=StatusFacts(is_empty=True))
        self.memory = JobMemory()
        self.releases = 0
        self.passed = 1.0

    def look(self) -> Decision:
        """Decide, and apply what concerns the job's suspend field."""
        moment = NOW.after(self.passed)
        decision = look(
            self.job, self.unit, memory=self.memory, moment=moment, settings=self.settings
        )
        self.memory = decision.memory
        for each in decision.actions:
            if isinstance(each, ReleaseJob):
                self.releases += 1
                marks = {RELEASED_AT: each.released_at}
                self.job = facts(annotations=marks, suspended=False, status=StatusFacts())
        return decision

    def suspend(self) -> None:
        """Suspend the job, and have its operator report that."""
        since = NOW.after(self.passed).stamp
        said = StatusFacts(suspended=True, suspended_since=since)
        self.job = msgspec.structs.replace(self.job, suspended=True, status=said)

    def go_on(self, seconds: float) -> tuple[float, Decision] | None:
        """Suspend it after each release; return when that led to an eviction, and its decision."""
        end = self.passed + seconds
        while self.passed < end:
            if action_names((decision := self.look()).actions) == EVICTED:
                return self.passed, decision
            self.passed += self.every - 1.0
            self.suspend()
            self.passed += 1.0
        return None


@pytest.mark.parametrize("every", [20.0, 30.0])
def test_suspending_it_does_not_renew_its_time_to_start(every: float) -> None:
    tug = Tug(timeout=60.0, every=every)
    ended = tug.go_on(600.0)
    assert ended is not None
    assert 60.0 < ended[0] <= 61.0 + every


def test_a_restart_of_the_controllers_renews_it_once() -> None:
    tug = Tug(timeout=60.0, every=25.0)
    assert tug.go_on(50.0) is None
    tug.memory = JobMemory()
    ended = tug.go_on(600.0)
    assert ended is not None
    assert 60.0 < ended[0] <= 160.0


@pytest.mark.parametrize("phase", ["Dequeued", "Running"])
@pytest.mark.parametrize(
    ("every", "ends"),
    [
        pytest.param(20.0, True, id="at once"),
        pytest.param(600.0, True, id="every ten minutes"),
        pytest.param(SUSPENSIONS_SECONDS, False, id="now and then"),
    ],
)
def test_a_job_that_is_suspended_over_and_over_is_requeued(
    phase: str, every: float, ends: bool
) -> None:
    tug = Tug(every=every, phase=phase)
    ended = tug.go_on(20 * every)
    assert (ended is not None) is ends
    if ended is None:
        assert tug.releases == 20
        return
    assert tug.releases <= MAX_SUSPENSIONS
    write = ended[1].actions[0]
    assert isinstance(write, PatchUnitStatus)
    (asked,) = (each for each in write.status["conditions"] if each["type"] == "Evicted")
    assert asked["reason"] == "BackoffTimeout"
    assert "suspended it 5 times within 60 minutes" in asked["message"]
    assert asked["message"].endswith(f'annotate it {ACTIVE}: "false"')
    assert tug.memory.suspended_at == (), "the next admission begins anew"


def test_each_repeated_release_is_reported() -> None:
    tug = Tug(every=20.0)
    assert action_names(tug.look().actions) == ["release"]
    tug.passed += 20.0
    tug.suspend()
    tug.passed += 1.0
    release, event = tug.look().actions
    assert isinstance(release, ReleaseJob)
    assert isinstance(event, RecordJobEvent)
    assert event.reason == "Resumed"


def test_the_first_release_of_an_earlier_admission_does_not_count() -> None:
    tug = Tug(timeout=60.0, every=20.0)
    tug.memory = JobMemory(first_release=NOW.after(-600.0).wall)
    assert action_names(tug.look().actions) == ["release"]
    assert tug.memory.first_release == NOW.after(1.0).wall
    assert look(tug.job, unit("Enqueued"), memory=tug.memory).memory.first_release is None


def test_a_running_job_needs_no_first_release() -> None:
    memory = JobMemory(first_release=NOW.wall)
    running = facts(suspended=False, status=RUNS)
    decision = look(running, unit("Dequeued", admissions=ADMITTED), pods=TWO_RUNNING, memory=memory)
    assert action_names(decision.actions) == ["move Running"]
    assert decision.memory.first_release is None


@pytest.mark.parametrize(
    ("released_at", "want"),
    [
        pytest.param("2126-01-01T00:00:00.000000Z", EVICTED, id="in a hundred years"),
        pytest.param("9999-12-31T23:59:59.000000Z", EVICTED, id="at the end of time"),
        pytest.param("2026-11-01T10:00:30.000000Z", [], id="by a clock that is ahead"),
    ],
)
def test_a_release_in_the_future_makes_no_job_early(released_at: str, want: list[str]) -> None:
    job = facts(annotations={RELEASED_AT: released_at}, suspended=False)
    of = unit("Dequeued", admissions=ADMITTED, last_allocate_time=TEN)
    settings = JobSettings(running_timeout_seconds=60)
    assert action_names(look(job, of, pods=NO_PODS, settings=settings).actions) == want


ONE_OF_TWO = (Admission(name="main", replicas=1),)


@pytest.mark.parametrize(
    ("timeout", "patience"),
    [
        pytest.param(0.0, REST_SECONDS, id="no time to run in"),
        pytest.param(600.0, REST_SECONDS, id="a long one"),
        pytest.param(20.0, 20.0, id="a short one"),
    ],
)
def test_a_job_with_too_few_granted_pods_is_requeued_after_a_while(
    timeout: float, patience: float
) -> None:
    settings = JobSettings(running_timeout_seconds=timeout)
    of = unit("Dequeued", admissions=ONE_OF_TWO, last_allocate_time=TEN)
    first = look(facts(), of, settings=settings)
    assert action_names(first.actions) == ["event PartialAdmission"]
    assert first.requeue_after_seconds == patience
    soon = NOW.after(patience - 1.0)
    waits = look(facts(), of, settings=settings, memory=first.memory, moment=soon)
    assert (waits.actions, waits.requeue_after_seconds) == ((), 1.0)
    over = look(
        facts(), of, settings=settings, memory=waits.memory, moment=NOW.after(patience + 0.1)
    )
    assert action_names(over.actions) == EVICTED
    write = over.actions[0]
    assert isinstance(write, PatchUnitStatus)
    (asked,) = (each for each in write.status["conditions"] if each["type"] == "Evicted")
    assert asked["reason"] == "JobChanged"


def test_a_job_that_is_granted_the_rest_meanwhile_is_released() -> None:
    short = look(facts(), unit("Dequeued", admissions=ONE_OF_TWO))
    whole = unit("Dequeued", admissions=ADMITTED)
    decision = look(facts(), whole, memory=short.memory, moment=NOW.after(REST_SECONDS + 1.0))
    assert action_names(decision.actions) == ["release"]
    assert decision.memory.short_since is None


def test_the_wait_for_the_rest_starts_again_with_each_admission() -> None:
    short = look(facts(), unit("Dequeued", admissions=ONE_OF_TWO))
    assert short.memory.short_since is not None
    assert look(facts(), unit("Enqueued"), memory=short.memory).memory.short_since is None
