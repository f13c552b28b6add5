"""Of the classes that wait for a budget, only those that are to be woken are asked in full."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from queue_scheduler.framework.extension_points import Place, Waiter
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.tenants.budget_waiters import CHECKED, BudgetWaiters, Waiting
from queue_scheduler.tenants.budgets_in_chains import BudgetKey
from tests.properties.engine_kit import build_info, build_unit

KEY = BudgetKey("a", "cpu", "Month", "UTC", 0)
LEFT = 50


def place_of(waiter: Waiter) -> Place:
    return (waiter[1],)


class Line:
    """Classes that wait for one budget, of which class n needs n of what is left.

    Attributes:
        asked: Those that all budgets were asked about, in order.
    """

    def __init__(
        self, count: int, refused: Collection[int] = (), watched: Collection[int] = ()
    ) -> None:
        self.asked: list[str] = []
        self.waiters = BudgetWaiters()
        self._refused = {f"ns/u{number}" for number in refused}
        for number in range(1, count + 1):
            info = build_info(build_unit(f"u{number}"))
            is_watched = number in watched
            short = None if is_watched else (KEY, number)
            self.waiters.add(("q", number), Waiting(info, "d", ("a",), is_watched, short))

    def ease(self, left: int = LEFT) -> None:
        self.waiters.follow(("a",), (), lambda _: left)

    def tighten(self, left: int) -> None:
        self.waiters.follow((), ("a",), lambda _: left)

    def first(self, waiters: BudgetWaiters | None = None) -> int | None:
        found = (waiters or self.waiters).first_due("d", place_of, self._refuses)
        return None if found is None else found[1][1]

    def _refuses(self, info: QueueUnitInfo) -> bool:
        self.asked.append(info.key)
        return info.key in self._refused


def test_only_the_first_is_asked() -> None:
    line = Line(100)
    line.ease()
    assert line.first() == 1
    assert line.first() == 1
    assert line.asked == ["ns/u1"]


def test_one_that_another_budget_refuses_is_passed_over_until_the_next_change() -> None:
    line = Line(100, refused=(1, 2))
    line.ease()
    assert line.first() == 3
    assert line.first() == 3
    assert line.asked == ["ns/u1", "ns/u2", "ns/u3"]
    line.ease()
    assert line.first() == 3
    assert line.asked[3:] == ["ns/u1", "ns/u2", "ns/u3"]


@pytest.mark.parametrize("left", [0, 2], ids=["nothing", "a little"])
def test_one_that_needs_more_than_is_left_is_not_due(left: int) -> None:
    line = Line(100)
    line.ease()
    line.tighten(left)
    assert len(line.waiters.due.get("d", ())) == left
    line.tighten(0)
    assert line.first() is None
    assert line.asked == []


def test_one_that_is_watched_is_due_once_it_is_refused() -> None:
    line = Line(3, refused=(2,), watched=(1, 2, 3))
    line.ease()
    assert line.first() is None
    line.tighten(LEFT)
    assert line.first() == 2


def test_after_so_many_that_do_not_pass_one_is_woken_as_it_is() -> None:
    line = Line(2 * CHECKED, refused=range(1, 2 * CHECKED + 1))
    line.ease(10 * CHECKED)
    assert line.first() == CHECKED + 1
    assert len(line.asked) == CHECKED


def test_one_that_was_woken_is_not_asked_again() -> None:
    line = Line(2)
    line.ease()
    line.waiters.discard(("q", 1))
    assert line.first() == 2
    assert line.asked == ["ns/u2"]


def test_a_copy_asks_by_itself() -> None:
    line = Line(2, refused=(1,))
    line.ease()
    twin = line.waiters.copy()
    assert line.first(twin) == 2
    assert line.first() == 2
    assert line.asked == ["ns/u1", "ns/u2"] * 2
