"""Runs make targets one after another: ``python -m tests.run_steps lint types unit``.

Says what each is and how long it took, goes on after a failure so that one run shows them all, and
closes with one line of counts. A step of pytest counts its tests, from the JUnit file that it
leaves in build/tests; any other step counts as one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "build" / "tests"
INTERRUPTED = 130
SECONDS_PER_MINUTE = 60


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one step, or of several."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            passed=self.passed + other.passed,
            failed=self.failed + other.failed,
            skipped=self.skipped + other.skipped,
        )

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


def main() -> int:
    """The exit status: 1 when a step failed."""
    steps = sys.argv[1:]
    meanings = step_meanings((ROOT / "Makefile").read_text(encoding="utf-8"))
    started = monotonic()
    total = Outcome()
    failed: list[str] = []
    for number, step in enumerate(steps, start=1):
        title = f"[{number}/{len(steps)}] {step}"
        print(f"\n{title}: {meanings.get(step, '')}", flush=True)
        step_started = monotonic()
        outcome, succeeded = _run(step)
        total += outcome
        if not succeeded:
            failed.append(step)
        verdict = "passed" if succeeded else "FAILED"
        print(f"{title}: {verdict} in {in_words(monotonic() - step_started)}", flush=True)
    print()
    if failed:
        print(f"failed: {' '.join(failed)} (each can be run alone: make {failed[0]})")
    print(f"{total} in {in_words(monotonic() - started)}", flush=True)
    return 1 if failed else 0


def _run(step: str) -> tuple[Outcome, bool]:
    result = RESULTS / f"{step}.xml"
    result.unlink(missing_ok=True)
    # The targets below are to see this run's settings, but not its job server.
    environment = {key: value for key, value in os.environ.items() if key != "MAKEFLAGS"}
    command = [os.environ.get("MAKE", "make"), "--no-print-directory", step]
    status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    xml = result.read_text(encoding="utf-8") if result.exists() else ""
    return outcome_of(status, xml), status == 0


def outcome_of(status: int, junit_xml: str) -> Outcome:
    """What a step counts for: its tests, or itself where it has none.

    A step that failed without a failed test (nothing collected, an interrupted run) is one failure
    more than its tests.
    """
    counted = Outcome()
    if junit_xml:
        for suite in ElementTree.fromstring(junit_xml).iter("testsuite"):  # noqa: S314 - our own
            tests, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
            failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            counted += Outcome(passed=tests - skipped - failed, failed=failed, skipped=skipped)
    if status != 0 and not counted.failed:
        counted += Outcome(failed=1)
    elif not junit_xml:
        counted += Outcome(passed=1)
    return counted


def step_meanings(makefile: str) -> dict[str, str]:
    """Target -> what ``make help`` says about it."""
    return dict(re.findall(r"^([a-z-]+):.*?## (.*)$", makefile, re.MULTILINE))


def in_words(seconds: float) -> str:
    """A duration as people say it: ``7 s``, ``3 min 05 s``."""
    minutes, rest = divmod(round(seconds), SECONDS_PER_MINUTE)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
