"""The state of a unit in the words of the glossary."""

from __future__ import annotations

import pytest

from shared_api.lifecycle import LifecycleState, lifecycle_state
from shared_api.queue_unit_phases import CHARGED_PHASES, FINAL_PHASES, RELEASED_PHASES, Phase

_BEFORE_PODS = {LifecycleState.RESERVED, LifecycleState.STARTING}


@pytest.mark.parametrize("phase", Phase)
def test_a_state_says_whether_the_quota_is_charged_and_the_job_released(phase: Phase) -> None:
    state = lifecycle_state(phase)
    is_charged = state in {*_BEFORE_PODS, LifecycleState.RUNNING}
    assert is_charged == (phase in CHARGED_PHASES)
    is_released = state in {LifecycleState.STARTING, LifecycleState.RUNNING}
    assert is_released == (phase in RELEASED_PHASES)
    assert (state is LifecycleState.FINISHED) == (phase in FINAL_PHASES)


@pytest.mark.parametrize(
    ("phase", "is_in_queue", "want"),
    [
        pytest.param("", True, LifecycleState.WAITING, id="nobody has written its status"),
        pytest.param("", False, LifecycleState.ON_HOLD, id="nor is it in a queue"),
        pytest.param("Enqueued", False, LifecycleState.ON_HOLD, id="in no queue"),
        pytest.param("TimeoutBackoff", True, LifecycleState.ON_HOLD, id="it backs off"),
        pytest.param("Running", False, LifecycleState.RUNNING, id="what runs is in no queue"),
        pytest.param("Dreaming", True, None, id="a phase of a later version"),
    ],
)
def test_states(phase: str, is_in_queue: bool, want: LifecycleState | None) -> None:
    assert lifecycle_state(phase, is_in_queue=is_in_queue) is want


def test_a_cell_is_one_word() -> None:
    assert [state.cell for state in LifecycleState] == [
        "OnHold", "Waiting", "Reserved", "Starting", "Running", "Finished",
    ]  # fmt: skip
