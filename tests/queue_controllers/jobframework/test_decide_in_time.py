"""How long a job whose queue waits for its pods may take until they run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from queue_controllers.jobframework.job_machine import PodFacts
from queue_controllers.jobframework.job_settings import JobSettings
from queue_controllers.jobframework.job_view import Moment
from queue_controllers.jobframework.unit_status import WAITED_FOR_SECONDS
from shared_api.objects.meta import Condition, Timestamp
from tests.job_situations import ADMITTED, RELEASED, RUNS, facts, look, told, unit

AWAITED = Condition(type="PodsReady", status="False", reason="WaitForPodsRunning")
RELEASED_AT = Moment(monotonic=1.0, wall=datetime(2026, 11, 1, 9, 51, tzinfo=UTC))
EVICTED = ["write status", "TellUnit"]


@pytest.mark.parametrize(
    ("conditions", "own", "seconds", "want"),
    [
        pytest.param((AWAITED,), 0, 599, ([], 1.0), id="ten minutes"),
        pytest.param((AWAITED,), 0, 600, (EVICTED, None), id="they are over"),
        pytest.param((AWAITED,), 60, 60, (EVICTED, None), id="a shorter one of its own"),
        pytest.param((AWAITED,), 3600, 600, ([], 3000.0), id="a longer one of its own"),
        pytest.param((), 0, 10_000, ([], None), id="nobody waits for it"),
    ],
)
def test_nobody_is_waited_for_for_ever(
    conditions: tuple[Condition, ...],
    own: float,
    seconds: float,
    want: tuple[list[str], float | None],
) -> None:
    job = facts(annotations=RELEASED, suspended=False, status=RUNS)
    decision = look(
        job,
        unit("Dequeued", admissions=ADMITTED, conditions=conditions),
        pods=PodFacts(),
        moment=RELEASED_AT.after(seconds),
        settings=JobSettings(running_timeout_seconds=own),
    )
    assert (told(decision.actions), decision.look_again_seconds) == want
    assert WAITED_FOR_SECONDS == 600.0


@pytest.mark.parametrize(
    ("conditions", "own", "settled"),
    [
        pytest.param((AWAITED,), 0, False, id="waited for"),
        pytest.param((), 60, False, id="a time of its own"),
        pytest.param((), 0, True, id="no time at all"),
    ],
)
def test_a_release_is_looked_at_again_where_time_counts(
    conditions: tuple[Condition, ...], own: float, settled: bool
) -> None:
    of = unit("Dequeued", admissions=ADMITTED, conditions=conditions)
    decision = look(facts(), of, settings=JobSettings(running_timeout_seconds=own))
    assert told(decision.actions) == ["release"]
    assert decision.settled is settled


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        pytest.param(599, ([], 1.0), id="ten minutes"),
        pytest.param(600, (EVICTED, None), id="they are over"),
    ],
)
def test_what_is_left_of_an_earlier_run_holds_up_nobody_for_ever(
    seconds: float, want: tuple[list[str], float | None]
) -> None:
    """Its pod has ended, and somebody's finalizer keeps the object."""
    admitted_at = Timestamp("2026-11-01T09:51:00Z")
    of = unit(
        "Dequeued", admissions=ADMITTED, conditions=(AWAITED,), last_allocate_time=admitted_at
    )
    left = PodFacts(total=1, terminating=1)
    decision = look(facts(), of, pods=left, moment=RELEASED_AT.after(seconds))
    assert (told(decision.actions), decision.look_again_seconds) == want
