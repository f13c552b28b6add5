"""The judge of budgets finds a unit that is stopped before the grace is over."""

from __future__ import annotations

import pytest

from tests.budget_world import HOUR, BudgetWorld, budget
from tests.simulation.budget_judge import BudgetMeter

pytestmark = pytest.mark.simulation

GRACE = 600


class Metered:
    """A unit that uses a budget of one hour, in a world whose time is metered."""

    def __init__(self) -> None:
        self.world, self.meter = BudgetWorld(), BudgetMeter()
        self.world.state(budget(1, period="None", enforce="Stop", grace="10m", reserve="None"))
        assert self.world.ask("train", 1, None) == ["train"]
        self.pass_time(0)

    def pass_time(self, seconds: int) -> None:
        self.meter.before(self.world.engine)
        self.world.workers.wall = self.world.second + seconds
        self.world.tell_time()
        self.meter.after(self.world.engine)

    def stop(self) -> None:
        self.meter.check_stop(self.world.engine, "ns/train")


def test_a_unit_may_be_stopped_once_the_grace_is_over() -> None:
    metered = Metered()
    metered.pass_time(HOUR + GRACE)
    metered.stop()


@pytest.mark.parametrize("seconds", [HOUR - 1, HOUR + GRACE - 1])
def test_a_unit_that_is_stopped_earlier_is_found(seconds: int) -> None:
    metered = Metered()
    metered.pass_time(seconds)
    with pytest.raises(AssertionError, match="ns/train is stopped at"):
        metered.stop()
