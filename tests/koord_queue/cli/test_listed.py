"""Units and queues of a dump or of another time."""

from __future__ import annotations

import pytest

from koord_queue.answers.units import Unit
from koord_queue.cli.listed import Listed, sort_units, state_of
from queue_scheduler.cache.unit_state import UnitState


@pytest.mark.parametrize("state", UnitState)
def test_each_state_of_the_scheduler_is_one_word(state: UnitState) -> None:
    word = state_of(Unit(scheduler_state=state.value))
    assert word.isalpha()
    assert word[0].isupper()


@pytest.mark.parametrize(
    ("state", "phase", "want"),
    [
        (UnitState.ON_HOLD, "Enqueued", "OnHold"),
        (UnitState.WAITING, "Enqueued", "Waiting"),
        (UnitState.ASSUMED, "Enqueued", "Reserved"),
        (UnitState.ADMITTED, "SchedReady", "Reserved"),
        (UnitState.ADMITTED, "Dequeued", "Starting"),
        (UnitState.ADMITTED, "Running", "Running"),
        (UnitState.ADMITTED, "TimeoutBackoff", "Starting"),
        (UnitState.ENDED, "Succeed", "Finished"),
    ],
)
def test_a_state_is_called_as_units_calls_it(state: UnitState, phase: str, want: str) -> None:
    assert state_of(Unit(scheduler_state=state.value, phase=phase)) == want


@pytest.mark.parametrize(
    ("by", "want"),
    [
        pytest.param("queue", "bcad", id="what has started, then what waits, then what is on hold"),
        pytest.param("age", "dcba", id="the oldest first"),
        pytest.param("priority", "badc", id="the highest priority first, then the oldest"),
        pytest.param("name", "abcd", id="by name"),
    ],
)
def test_units_are_sorted_with_all_that_the_api_says_of_them(by: str, want: str) -> None:
    places = [("a", "waiting", 2, 3), ("b", "admitted", 0, 4), ("c", "waiting", 1, 0)]
    units = [
        Unit(
            name=name,
            scheduler_state=state,
            position=position,
            priority=priority,
            created=str(9 - at),
        )
        for at, (name, state, position, priority) in enumerate([*places, ("d", "held", 0, 1)])
    ]
    got = sort_units(Listed(units, [{"name": each.name} for each in units]), by)
    assert "".join(each.name for each in got.values) == want
    assert [each["name"] for each in got.trees] == [each.name for each in got.values]
