"""A slice of the simulation, and its reproducibility; `make sim` runs as many seeds as asked."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from tests.properties.test_engine_properties import ROOT
from tests.simulation.__main__ import event, read_seeds
from tests.simulation.simulated_run import Outcome, simulate

pytestmark = pytest.mark.simulation

SEEDS = range(24)
STEPS = 200
HASH_SEEDS = ("0", "4711")
WORLDS = ((0, 60), (7, 60), (58, 70), (3, 60))
"""Seeds and steps: a plain world, and worlds with limits, budgets and turns by use."""
PRINT_DIGESTS = (
    "from tests.simulation.test_simulated_run import *;"
    "print(*(digest(*world) for world in WORLDS), sep='\\n')"
)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_rule_is_broken(seed: int) -> None:
    outcome = simulate(seed, STEPS)
    assert outcome.broken is None, event(outcome)


def test_a_seed_reproduces_its_run_under_any_hash_seed() -> None:
    digests = set()
    for hash_seed in HASH_SEEDS:
        run = subprocess.run(
            [sys.executable, "-c", PRINT_DIGESTS],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            text=True,
        )
        digests.add(run.stdout)
    assert len(digests) == 1
    assert len(digests.pop().split()) == len(WORLDS)


def test_seeds_differ() -> None:
    assert simulate(1, 20).trace != simulate(2, 20).trace


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("3", [0, 1, 2], id="a count"),
        pytest.param("5-7", [5, 6, 7], id="a range"),
        pytest.param("17,4", [17, 4], id="a list"),
        pytest.param("17,", [17], id="one seed"),
    ],
)
def test_seeds_are_read(text: str, want: list[int]) -> None:
    assert list(read_seeds(text)) == want


def test_a_run_without_a_fault_has_no_story() -> None:
    outcome: Outcome = simulate(0, 5)
    assert outcome.story() == []


def digest(seed: int, steps: int) -> str:
    """Return the digest of all that happens in a run, for another process."""
    return hashlib.sha256("\n".join(simulate(seed, steps).trace).encode()).hexdigest()
