"""For how long units wait that nothing keeps from starting."""

from __future__ import annotations

from typing import Any

import pytest
import structlog

from queue_insight.debug_api.engine_state import State
from queue_insight.insight import fitting
from queue_insight.insight_program import fitting_watch
from queue_insight.insight_program.fitting_watch import ANNOUNCED_SECONDS, FittingWatch
from queue_scheduler.decision import Moment
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_scheduler.shell_kit import ShellKit


class Followed:
    """A watch of the kit's engine."""

    def __init__(self, kit: ShellKit) -> None:
        self._kit = kit
        self.clock = VirtualClock()
        self.number = 0
        self.forks = 0
        self.decides = True
        self.watch = FittingWatch(self._state, self.clock)

    def _state(self) -> State | None:
        if not self.decides:
            return None
        self.forks += 1
        moment = Moment(self.clock.monotonic(), self.clock.now())
        return State(self._kit.shared.fork(), moment, self.number)

    def look(self, seconds: float = 15.0) -> tuple[float, float]:
        """Change something, look after a time, and return what a scrape shows."""
        self.number += 1
        self.clock.advance(seconds)
        self.watch.step()
        return self.watch.count(), self.watch.longest_seconds()


@pytest.fixture
def followed(kit: ShellKit) -> Followed:
    return Followed(kit)


def test_a_unit_that_fits_is_counted_until_it_is_admitted(
    kit: ShellKit, followed: Followed
) -> None:
    assert followed.look() == (0, 0)
    kit.add_unit("a")
    assert followed.look() == (1, 0)
    assert followed.look() == (1, 15)
    followed.clock.advance(7)
    assert followed.watch.longest_seconds() == 22
    kit.dequeue()
    assert followed.look() == (0, 0)


def test_a_unit_that_does_not_fit_begins_anew(kit: ShellKit, followed: Followed) -> None:
    kit.add_unit("a", cpu=3)
    followed.look()
    kit.add_unit("ahead", cpu=2, priority=9)
    kit.dequeue()
    assert followed.look() == (0, 0), "it is too large for the rest"


def test_a_replica_that_does_not_decide_has_none(kit: ShellKit, followed: Followed) -> None:
    kit.add_unit("a")
    followed.look()
    followed.decides = False
    assert followed.look() == (0, 0)
    followed.decides = True
    assert followed.look() == (1, 0)


def test_a_state_without_changes_is_not_looked_at_again(
    kit: ShellKit, followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.add_unit("a")
    followed.look()
    monkeypatch.setattr(fitting_watch, "fits_now", lambda *_: pytest.fail("looked at again"))
    followed.clock.advance(60)
    followed.watch.step()
    assert followed.watch.longest_seconds() == 60


def test_what_a_round_leaves_the_next_one_looks_at(
    kit: ShellKit, followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look takes a round's whole budget."""
    for number in (1, 2, 3):
        kit.add_unit(f"needs-{number}", cpu=number)
    found = fitting.fits_now

    def slowly(*arguments: Any) -> bool:
        followed.clock.advance(2 * fitting_watch.BUDGET_SECONDS)
        return found(*arguments)

    monkeypatch.setattr(fitting_watch, "fits_now", slowly)
    followed.number += 1
    counts = []
    for _ in range(3):
        followed.watch.step()
        counts.append(followed.watch.count())
    assert counts == [1, 2, 3]


def test_a_unit_that_is_stuck_is_logged_once(kit: ShellKit, followed: Followed) -> None:
    kit.add_unit("a")
    with structlog.testing.capture_logs() as logs:
        followed.look()
        followed.look(ANNOUNCED_SECONDS - 1)
        assert logs == []
        followed.look(1)
        followed.look(1)
    assert [(each["log_level"], each["unit"]) for each in logs] == [("warning", "default/a")]


def test_a_unit_at_which_a_plugin_raises_hides_no_other(
    kit: ShellKit, followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.add_unit("bad", priority=9)
    kit.add_unit("good", cpu=2)
    real = fitting.fits_now

    def fits(engine: Any, queue: Any, record: Any, moment: Any) -> bool:
        if record.key == "default/bad":
            raise ValueError(record.key)
        return real(engine, queue, record, moment)

    monkeypatch.setattr(fitting_watch, "fits_now", fits)
    with structlog.testing.capture_logs() as logs:
        count, _ = followed.look()
    assert [each["key"] for each in logs] == ["default/bad"]
    assert count <= 1
