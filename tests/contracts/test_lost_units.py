"""A job waits for the unit that koord-scheduler never gives, and mostly for no other."""

from __future__ import annotations

import pytest

from tests.contracts.lost_units import (
    BUSY,
    DEVICES,
    QUIET,
    count,
    main,
    with_all_tolerance,
    without_tolerance,
)


def test_where_mins_are_scaled_fewer_jobs_wait_and_no_more_pods_are_refused() -> None:
    seeds = range(30)
    with without_tolerance():
        without = count(seeds)
    tolerated = count(seeds)
    with with_all_tolerance():
        every = count(seeds)
    assert without.waited_for_one > tolerated.waited_for_one > every.waited_for_one == 0
    assert without.queue_turns > tolerated.queue_turns
    # Most of those that start with a unit that is lost elsewhere are refused for it.
    assert tolerated.refused_for_one <= 2 * without.refused_for_one
    assert every.refused_for_one >= 3 * tolerated.refused_for_one


def test_no_pod_is_refused_for_a_device_that_rounding_loses() -> None:
    seeds = range(8)
    for pace in (BUSY, QUIET):
        exact = count(seeds, pace, DEVICES)
        assert (exact.refused_for_one, exact.refused_for_more) == (0, 0)
        assert exact.waited_for_one > 0
    with with_all_tolerance():
        assert count(seeds, BUSY, DEVICES).refused_for_one > 0


def test_the_command_prints_all_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["1", "devices"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "without a tolerance", "with the tolerance", "with one for every unit",
    ]  # fmt: skip
