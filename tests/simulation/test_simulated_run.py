"""A slice of the simulation, and its reproducibility; `make sim` runs as many seeds as asked."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from tests.simulation.__main__ import event, read_seeds
from tests.simulation.simulated_run import Outcome, simulate

pytestmark = pytest.mark.simulation

SEEDS = range(24)
STEPS = 200
HASH_SEEDS = ("0", "1")
PRINT_TRACE = (
    "import sys; from tests.simulation.simulated_run import simulate;"
    "sys.stdout.write('\\n'.join(simulate(int(sys.argv[1]), int(sys.argv[2])).trace))"
)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_rule_is_broken(seed: int) -> None:
    outcome = simulate(seed, STEPS)
    assert outcome.broken is None, event(outcome)


@pytest.mark.parametrize("seed", [2, 3], ids=["with budgets", "without"])
def test_a_seed_reproduces_its_run_under_any_hash_seed(seed: int) -> None:
    here = "\n".join(simulate(seed, 80).trace)
    for hash_seed in HASH_SEEDS:
        there = subprocess.run(
            [sys.executable, "-c", PRINT_TRACE, str(seed), "80"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        assert _digest(there) == _digest(here)


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


def _digest(trace: str) -> str:
    return hashlib.sha256(trace.encode()).hexdigest()
