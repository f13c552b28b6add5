"""Simulates from many seeds: ``python -m tests.simulation --seeds 2000``.

        --seeds 2000    the seeds from 0 to 1999; 500-699 a range, 17,18 two seeds, 17, one
        --steps 500     steps of each run
        --jobs 2        number of processes
        --trace         print everything that happened, for one seed (then --seeds 17 is that seed)

Exit status 1 when a rule was broken; then it prints, for each such seed, the rule and the story of
the object concerned. The same seed and steps reproduce it, on any machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from shared_api.process.clock import SystemClock
from tests.run_steps import in_words
from tests.simulation.simulated_run import Outcome, simulate

DEFAULT_STEPS = 500
SAY_EVERY = 100
"""Number of runs between two lines of progress."""
STORY_LINES = 60
"""The end of a story, which matters most; the trace has all of it."""


def main(arguments: Sequence[str]) -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--seeds", default="200")
    parser.add_argument("--steps", type=int, default=DEFAULT_STEPS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--trace", action="store_true")
    got = parser.parse_args(arguments)
    if got.trace:
        (seed,) = read_seeds(got.seeds if "," in got.seeds else f"{got.seeds},")
        return show(simulate(seed, got.steps))
    return run_all(read_seeds(got.seeds), got.steps, got.jobs)


def read_seeds(text: str) -> Sequence[int]:
    """Return the seeds that a text names: `2000`, `500-699`, `17,18`."""
    if "," in text:
        return [int(each) for each in text.split(",") if each.strip()]
    first, dash, last = text.partition("-")
    return range(int(first), int(last) + 1) if dash else range(int(first))


def show(outcome: Outcome) -> int:
    """Print everything that happened in a run; return the exit status."""
    print("\n".join(outcome.trace))
    broken = outcome.broken
    print(f"broken: {broken.rule}: {broken.key}: {broken.how}" if broken else "nothing is broken")
    return 1 if broken else 0


def run_all(seeds: Sequence[int], steps: int, jobs: int) -> int:
    """Run all seeds, print the progress and what is broken; return the exit status."""
    clock = SystemClock()
    started = clock.monotonic()
    turns, failed = 0, []
    for number, outcome in enumerate(outcomes(seeds, steps, jobs), 1):
        turns += outcome.turns
        if outcome.broken is not None:
            failed.append(outcome.seed)
            print(event(outcome), flush=True)
        if not number % SAY_EVERY or number == len(seeds):
            so_far = in_words(clock.monotonic() - started)
            print(f"{number} of {len(seeds)} seeds, {turns} turns, {so_far}", flush=True)
    if failed:
        print(
            f"broken with seeds {','.join(map(str, failed))}; replay: make sim SEEDS={failed[0]},"
        )
    return 1 if failed else 0


def outcomes(seeds: Iterable[int], steps: int, jobs: int) -> Iterator[Outcome]:
    """Run seeds in `jobs` processes; yield the outcomes in the order of the seeds."""
    one = partial(simulate, steps=steps)
    if jobs <= 1:
        yield from map(one, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(one, seeds, chunksize=4)


def event(outcome: Outcome) -> str:
    """Return the report on a run that broke a rule."""
    lines = outcome.story()
    left_out = len(lines) - STORY_LINES
    if left_out > 0:
        lines = [lines[0], f"... {left_out} more lines; TRACE=1 shows all", *lines[-STORY_LINES:]]
    again = f"make sim SEEDS={outcome.seed}, STEPS={outcome.asked_steps}"
    return "\n".join([f"seed {outcome.seed}, step {outcome.steps} ({again})", *lines])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
