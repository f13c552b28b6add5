"""How far a replay is."""

from __future__ import annotations

import io

from queue_insight.replay.progress import Progress
from shared_api.testing.virtual_clock import VirtualClock


class Terminal(io.StringIO):
    """A stream to a person."""

    def isatty(self) -> bool:
        return True


def test_a_bar_with_the_time_left_on_a_terminal() -> None:
    out, clock = Terminal(), VirtualClock()
    progress = Progress(out, clock, 2)
    progress.start("FIFO")
    clock.advance(30.0)
    progress.show(0.5)
    assert out.getvalue() == f"\r[{'#' * 7:<30}]  25% 1 of 2 (FIFO), 1 min 30 s left\x1b[K"
    progress.end()
    assert out.getvalue().endswith("\r\x1b[K")


def test_runs_that_are_over_count_as_done() -> None:
    out, clock = io.StringIO(), VirtualClock()
    progress = Progress(out, clock, 2)
    progress.start("FIFO")
    progress.start("Priority")
    clock.advance(60.0)
    progress.show(0.2)
    assert out.getvalue() == "60%: 2 of 2 (Priority), 40 s left\n"


def test_a_line_per_minute_elsewhere() -> None:
    out, clock = io.StringIO(), VirtualClock()
    progress = Progress(out, clock, 1)
    progress.start("FIFO")
    for percent in range(1, 13):
        clock.advance(10.0)
        progress.show(percent / 100)
    progress.end()
    assert out.getvalue() == (
        "6%: 1 of 1 (FIFO), 15 min 40 s left\n12%: 1 of 1 (FIFO), 14 min 40 s left\n"
    )


def test_no_time_left_is_told_at_the_very_beginning() -> None:
    out, clock = io.StringIO(), VirtualClock()
    progress = Progress(out, clock, 1)
    progress.start("FIFO")
    clock.advance(60.0)
    progress.show(0.001)
    assert out.getvalue() == "0%: 1 of 1 (FIFO)\n"
