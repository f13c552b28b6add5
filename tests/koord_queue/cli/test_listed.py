"""Units and queues of a dump or of another time."""

from __future__ import annotations

import pytest

from koord_queue.cli.listed import state_of
from queue_scheduler.cache.unit_state import UnitState


@pytest.mark.parametrize("state", UnitState)
def test_each_state_of_the_scheduler_is_one_word(state: UnitState) -> None:
    word = state_of(state.value)
    assert word.isalpha()
    assert word[0].isupper()


@pytest.mark.parametrize(
    ("standing", "want"),
    [
        (UnitState.ON_HOLD, "OnHold"),
        (UnitState.WAITING, "Waiting"),
        (UnitState.ASSUMED, "Starting"),
        (UnitState.ADMITTED, "Admitted"),
        (UnitState.ENDED, "Ended"),
    ],
)
def test_a_state_is_called_as_units_calls_it(standing: UnitState, want: str) -> None:
    assert state_of(standing.value) == want
