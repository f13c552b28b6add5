"""How many units of a queue are admitted per hour, counted from what the scheduler tells."""

from __future__ import annotations

import pytest

from queue_insight.insight_feed.messages import Checkpoint
from queue_insight.insight_program.admission_rates import MINUTES, AdmissionRates
from queue_scheduler.cycles.engine_call import EngineCall
from queue_scheduler.decision import Dequeue
from shared_api.objects.meta import Uid
from shared_api.testing.virtual_clock import VirtualClock


class Scene:
    """Rates, and a scheduler that tells what it admits."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.rates = AdmissionRates(self.clock)

    def begin(self) -> None:
        wall = self.clock.now()
        self.rates.on_checkpoint(Checkpoint(number=1, wall=wall, engine=b""))

    def admit(self, count: int = 1, queue: str = "team") -> None:
        answer = Dequeue(
            unit="ns/a", uid=Uid("a"), resource_version="1", queue=queue, quota="", grants=()
        )
        for _ in range(count):
            call = EngineCall(1, self.clock.now().timestamp(), "decide_next")
            self.rates.on_call(call, b"", answer)
            self.rates.on_call(call, b"", None)


@pytest.fixture
def reported() -> Scene:
    """Followed from now on."""
    found = Scene()
    found.begin()
    return found


def test_at_first_it_is_not_known(reported: Scene) -> None:
    assert Scene().rates.per_hour("team") is None
    reported.admit(3)
    reported.clock.advance(59.0)
    assert reported.rates.per_hour("team") is None


def test_in_the_first_hour_it_is_that_since_the_beginning(reported: Scene) -> None:
    reported.admit(5)
    reported.clock.advance(1800.0)
    assert reported.rates.per_hour("team") == 10.0
    assert reported.rates.per_hour("other") == 0.0


def test_later_it_is_that_of_the_last_hour(reported: Scene) -> None:
    for _ in range(3 * MINUTES):
        reported.admit(2)
        reported.clock.advance(60.0)
    got = reported.rates.per_hour("team")
    assert got is not None
    assert got == pytest.approx(120.0, rel=0.02)
    reported.clock.advance(3600.0)
    assert reported.rates.per_hour("team") == 0.0


def test_another_scheduler_begins_nothing_anew(reported: Scene) -> None:
    reported.admit(6)
    reported.clock.advance(1800.0)
    reported.begin()
    assert reported.rates.per_hour("team") == 12.0


def test_queues_count_by_themselves_and_old_ones_are_forgotten(reported: Scene) -> None:
    reported.admit(queue="old")
    for _ in range(2 * MINUTES):
        reported.admit()
        reported.clock.advance(60.0)
    assert reported.rates.per_hour("old") == 0.0
    kept = vars(reported.rates)["_counts"]
    assert list(kept) == ["team"]
    assert len(kept["team"]) <= MINUTES
