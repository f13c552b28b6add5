"""Without the tolerance, jobs wait for a unit that no quota has; the count of them can fail."""

from __future__ import annotations

import pytest

from tests.contracts.lost_units import count, main, without_tolerance

SEEDS = range(12)


def test_no_job_waits_for_one_unit_of_a_runtime() -> None:
    with without_tolerance():
        before = count(SEEDS)
    after = count(SEEDS)
    assert before.waited_for_one >= 30
    assert after.waited_for_one == 0
    # Some of those that start with the tolerance lack that unit at the scheduler for a moment.
    assert 50 * after.refused_for_one <= 2 * after.released
    assert after.pod_turns + after.queue_turns <= before.pod_turns + before.queue_turns


def test_the_command_prints_both_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["1"]) == 0
    without, with_it = capsys.readouterr().out.splitlines()
    assert without.startswith("without the tolerance: ")
    assert with_it.startswith("with the tolerance: ")
