"""Plays beside the real koord-scheduler: ``python -m tests.koordinator --seeds 3 --rounds 4``.

        --seeds 3           the seeds from 0 to 2; 5-9 a range, 17,18 two seeds, 17, one
        --rounds 4          rounds of each seed, of some twelve units each; 0: none
        --scenarios a,b     these fixed scenarios; "" none; all where it is not given
        --parking           with the chart's policies that park pods at the gate

Exit status 1 when a fixed scenario had a job refused for good or stuck, or a round had a refusal
that is not explained (`round_judge`) or a unit that is stuck; 2 when koord-scheduler cannot be
built. The same seed does the same; how fast the cluster follows, it does not decide.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from tests.controlplane.binaries import require_binaries
from tests.controlplane.go_tools import KOORD_SCHEDULER, require_tool
from tests.controlplane.tool_cache import BinariesUnavailable
from tests.koordinator.koordinator_world import KoordinatorWorld
from tests.koordinator.random_rounds import SeedReport, play_seed
from tests.koordinator.round_judge import Verdict
from tests.koordinator.scenarios import SCENARIOS, Scenario, is_good
from tests.simulation.__main__ import read_seeds

NOT_BUILT = 2


def main(arguments: Sequence[str]) -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="koordinator", description=__doc__)
    parser.add_argument("--seeds", default="3")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--scenarios", default=None)
    parser.add_argument("--parking", action="store_true")
    got = parser.parse_args(arguments)
    chosen = choose(got.scenarios)
    try:
        require_binaries()
        require_tool(KOORD_SCHEDULER)
    except BinariesUnavailable as error:
        print(f"koordinator: {error}", file=sys.stderr)
        return NOT_BUILT
    with KoordinatorWorld(parks=got.parking) as world:
        bad = play_scenarios(world, chosen)
        reports = [
            play_and_tell(world, seed, got.rounds) for seed in read_seeds(got.seeds) if got.rounds
        ]
    print(total_of(reports))
    return 1 if bad or not all(each.is_good for each in reports) else 0


def choose(names: str | None) -> list[Scenario]:
    """Return the scenarios of these names, all for None.

    Raises:
        SystemExit: There is none of a name.
    """
    known = {each.__name__: each for each in SCENARIOS}
    wanted = list(known) if names is None else [each for each in names.split(",") if each]
    unknown = [each for each in wanted if each not in known]
    if unknown:
        raise SystemExit(f"no scenario {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[each] for each in wanted]


def play_scenarios(world: KoordinatorWorld, chosen: Iterable[Scenario]) -> int:
    """Play fixed scenarios, print what became of their jobs, and return how many went wrong."""
    bad = 0
    for scenario in chosen:
        fates = scenario(world)
        world.check_alive()
        good = is_good(fates)
        bad += not good
        print(f"{'ok  ' if good else 'FAIL'} {scenario.__name__}", flush=True)
        for fate in fates:
            print(f"       {fate}", flush=True)
    return bad


def play_and_tell(world: KoordinatorWorld, seed: int, rounds: int) -> SeedReport:
    """Play a seed, and print its report."""
    report = play_seed(world, seed, rounds)
    for line in report.lines():
        print(line, flush=True)
    if not report.is_good:
        parking = " PARKING=1" if world.parks else ""
        again = f"make koordinator SEEDS={seed}, ROUNDS={rounds} SCENARIOS={parking}"
        print(f"  again: {again}", flush=True)
    return report


def total_of(reports: Sequence[SeedReport]) -> str:
    """Return the sums of all seeds."""
    refused = ", ".join(f"{sum(r.count(each) for r in reports)} {each}" for each in Verdict)
    return (
        f"{len(reports)} seeds: {sum(each.units for each in reports)} units,"
        f" {sum(each.released for each in reports)} released,"
        f" {sum(len(each.refusals) for each in reports)} pods refused ({refused}),"
        f" {sum(len(each.stuck) for each in reports)} stuck,"
        f" {sum(each.held_deleted for each in reports)} held pods deleted"
    )


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
