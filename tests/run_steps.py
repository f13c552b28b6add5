"""Runs make targets one after another: ``python -m tests.run_steps lint types+unit cluster``.

Prints the title and duration of each, continues after a failure so that one run shows all of them,
and ends with one line of counts. A step of pytest counts its tests, from its JUnit file in
build/tests; any other step counts as one.

Steps joined by a plus run concurrently. The output of the first is shown live. The others have a
lower priority, and their complete output is shown once they have ended.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import IO, Final, Self
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "build" / "tests"
INTERRUPTED = 130
INTERRUPTED_SECONDS = 20.0
"""Seconds for a step to clean up after Ctrl-C."""
LOOK_SECONDS = 0.1
# `nice` is available wherever make is. A step that only computes must not slow down a concurrent
# step whose tests wait for real programs.
GIVING_WAY: Final = ("nice", "-n", "19")
SECONDS_PER_MINUTE = 60


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of one or several steps."""

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


@dataclass(frozen=True, kw_only=True)
class Step:
    """A make target: its name, and its title."""

    name: str
    title: str
    meaning: str

    @property
    def result(self) -> Path:
        """The JUnit file of its tests, if it has any."""
        return RESULTS / f"{self.name}.xml"


def main() -> int:
    """Run the steps; return 1 if one failed."""
    started = monotonic()
    total = Outcome()
    failed: list[str] = []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for group in plan(sys.argv[1:], step_meanings(makefile)):
        for step, outcome, succeeded in _run_side_by_side(group):
            total += outcome
            if not succeeded:
                failed.append(step.name)
    print()
    if failed:
        print(f"failed: {' '.join(failed)} (each can be run alone: make {failed[0]})")
    print(f"{total} in {in_words(monotonic() - started)}", flush=True)
    return 1 if failed else 0


def plan(arguments: Sequence[str], meanings: Mapping[str, str]) -> list[list[Step]]:
    """Return groups of concurrent steps from the command line."""
    groups = [argument.split("+") for argument in arguments]
    count = sum(map(len, groups))
    numbers = itertools.count(1)
    return [
        [
            Step(
                name=name,
                title=f"[{next(numbers)}/{count}] {name}",
                meaning=meanings.get(name, ""),
            )
            for name in group
        ]
        for group in groups
    ]


def _run_side_by_side(group: Sequence[Step]) -> Iterator[tuple[Step, Outcome, bool]]:
    first, *others = group
    with ExitStack() as stack:
        print(f"\n{first.title}: {first.meaning}", flush=True)
        runs = [stack.enter_context(_Run(first, None))]
        for step in others:
            output = stack.enter_context(tempfile.TemporaryFile())
            runs.append(stack.enter_context(_Run(step, output)))
        for run in runs:
            while not run.has_ended():
                # Check all of them, so that each is timed by its own end.
                [each.has_ended() for each in runs]
                sleep(LOOK_SECONDS)
            yield run.step, *run.report()


class _Run:
    """A running step. With `output` it writes there, and runs with a lower priority."""

    def __init__(self, step: Step, output: IO[bytes] | None) -> None:
        self.step = step
        self._output = output
        self._started = self._ended = monotonic()
        step.result.unlink(missing_ok=True)
        # The targets must see the settings of this run, but not its job server.
        environment = {key: value for key, value in os.environ.items() if key != "MAKEFLAGS"}
        command = [os.environ.get("MAKE", "make"), "--no-print-directory", step.name]
        if output is not None:
            command[:0] = GIVING_WAY
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=output
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the step; after Ctrl-C it has got the signal from the terminal, as this process."""
        try:
            self._process.wait(INTERRUPTED_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.terminate()  # make forwards it
            self._process.wait()

    def has_ended(self) -> bool:
        """Return whether it has ended; to be called often, since it records the time."""
        if self._process.returncode is None:
            self._ended = monotonic()
        return self._process.poll() is not None

    def report(self) -> tuple[Outcome, bool]:
        """Print the remaining output and the result, and return the outcome."""
        if self._output is not None:
            print(f"\n{self.step.title}: {self.step.meaning}", flush=True)
            self._output.seek(0)
            sys.stdout.buffer.write(self._output.read())
        succeeded = self._process.returncode == 0
        verdict = "passed" if succeeded else "FAILED"
        seconds = in_words(self._ended - self._started)
        print(f"{self.step.title}: {verdict} in {seconds}", flush=True)
        result = self.step.result
        xml = result.read_text(encoding="utf-8") if result.exists() else ""
        return outcome_of(self._process.returncode, xml), succeeded


def outcome_of(status: int, junit_xml: str) -> Outcome:
    """Return the counts of a step: its tests, or itself without tests.

    A step that failed without a failed test (nothing collected, an interrupted run) counts as one
    failure in addition to its tests.
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
    """Return the targets with their text in ``make help``."""
    return dict(re.findall(r"^([a-z-]+):.*?## (.*)$", makefile, re.MULTILINE))


def in_words(seconds: float) -> str:
    """Return a duration as text: ``7 s``, ``3 min 05 s``."""
    minutes, rest = divmod(round(seconds), SECONDS_PER_MINUTE)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
