"""Planted faults are found; all of them by `make sim-faults`, here those that are found early."""

from __future__ import annotations

import re

import pytest

from tests.simulation.planted_faults import FAULTS, TABLE, planted
from tests.simulation.simulated_run import simulate

pytestmark = pytest.mark.simulation

SOON = ("freed_too_early", "gone_unit_not_told")
"""Faults that some short run of few finds."""


@pytest.mark.parametrize("name", SOON)
def test_a_planted_fault_is_found(name: str) -> None:
    with planted(name):
        runs = (simulate(seed, 200) for seed in range(20))
        found = next((outcome for outcome in runs if outcome.broken is not None), None)
    assert found is not None
    assert found.broken is not None
    assert "TypeError" not in found.broken.how, "what is planted cannot be called"
    assert simulate(found.seed, found.steps).broken is None, "without the fault nothing is wrong"


def test_the_table_has_every_fault_and_each_was_found() -> None:
    table = TABLE.read_text(encoding="utf-8")
    assert re.findall(r"\| `(\w+)` \| \d+ \|", table) == list(FAULTS)


@pytest.mark.parametrize("name", list(FAULTS))
def test_each_fault_can_still_be_planted(name: str) -> None:
    """It replaces something by its name, which may be called otherwise since."""
    with planted(name):
        pass
