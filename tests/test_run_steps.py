"""The last line of ``make test`` has the right counts, especially after failures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run_steps import Outcome, in_words, outcome_of, plan, step_meanings

JUNIT = '<testsuites><testsuite tests="{}" failures="{}" errors="{}" skipped="{}"/></testsuites>'


@pytest.mark.parametrize(
    ("status", "junit_xml", "want"),
    [
        pytest.param(0, JUNIT.format(9, 0, 0, 2), "7 passed, 0 failed, 2 skipped", id="tests"),
        pytest.param(1, JUNIT.format(9, 1, 2, 0), "6 passed, 3 failed", id="errors are failures"),
        pytest.param(2, JUNIT.format(3, 0, 0, 0), "3 passed, 1 failed", id="interrupted"),
        pytest.param(5, JUNIT.format(0, 0, 0, 0), "0 passed, 1 failed", id="nothing collected"),
        pytest.param(0, "", "1 passed, 0 failed", id="a step without tests"),
        pytest.param(1, "", "0 passed, 1 failed", id="a failed step without tests"),
    ],
)
def test_counts_of_a_step(status: int, junit_xml: str, want: str) -> None:
    assert str(outcome_of(status, junit_xml)) == want


def test_counts_add_up() -> None:
    total = Outcome(passed=2, failed=1) + Outcome(passed=3, skipped=4)
    assert total == Outcome(passed=5, failed=1, skipped=4)


@pytest.mark.parametrize(
    ("seconds", "want"), [(0.2, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (425, "7 min 05 s")]
)
def test_durations_as_text(seconds: float, want: str) -> None:
    assert in_words(seconds) == want


def test_meanings_are_those_of_make_help() -> None:
    makefile = "lint: $(STAMP) ## ruff: rules\n\t@ruff # no ## here\nverify: lint ## all\n"
    assert step_meanings(makefile) == {"lint": "ruff: rules", "verify": "all"}


def test_steps_are_numbered_through_all_groups() -> None:
    groups = plan(["lint", "unit+types", "cluster"], {"types": "mypy"})
    assert [[step.title for step in group] for group in groups] == [
        ["[1/4] lint"],
        ["[2/4] unit", "[3/4] types"],
        ["[4/4] cluster"],
    ]
    assert groups[1][1].meaning == "mypy"


STAND_IN_FOR_MAKE = """#!/bin/sh
for step; do :; done
echo "$step says this"
[ "$step" != bad-example ]
"""


def test_concurrent_steps_are_reported_one_after_the_other(tmp_path: Path) -> None:
    make = tmp_path / "make"
    make.write_text(STAND_IN_FOR_MAKE)
    make.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "tests.run_steps", "an-example+bad-example", "last-example"],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "MAKE": str(make)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if "says" in line or " in " in line]
    assert [line.partition(" in ")[0] for line in said] == [
        "an-example says this",
        "[1/3] an-example: passed",
        "bad-example says this",
        "[2/3] bad-example: FAILED",
        "last-example says this",
        "[3/3] last-example: passed",
        "2 passed, 1 failed",
    ]
    assert "failed: bad-example (each can be run alone: make bad-example)" in done.stdout
    assert done.returncode == 1
