"""Measure: `python -m tests.benchmarks [--json FILE] [--quick] [--turns N] [--store] [STAGE...]`.

`report` instead of a stage writes BENCHMARKS.md, of what was stored; `soak` looks for growth.

Every figure has a control that is measured in the same run, so that a slow or busy machine is not
mistaken for a slow program. Compare ratios first, and CPU per unit before wall time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from shared_api.process.clock import SystemClock
from shared_api.process.structured_logs import configure_logs
from tests.benchmarks import (
    account_figures,
    answer_figures,
    audit_figures,
    backfill_figures,
    bare_loop,
    client_transport,
    client_watch,
    command_line_figures,
    controllers_memory,
    crd_writes,
    engine_figures,
    forecast_figures,
    insight_cost,
    insight_figures,
    insight_memory,
    job_cpu,
    job_lives,
    job_shares,
    kueue_shape,
    many_queues,
    page_cost,
    preemption_figures,
    probe_lateness,
    replay_figures,
    restart,
    scheduler_memory,
    scheduler_threads,
    score_figures,
    scrape,
    status_writes,
    takeover,
    tenant_figures,
    visibility_figures,
)
from tests.benchmarks.figures import Figure, medians, print_figures, write_json
from tests.benchmarks.report.command import main as report
from tests.benchmarks.report.results import store
from tests.benchmarks.soak.command import main as soak
from tests.controlplane.binaries import require_binaries
from tests.controlplane.tool_cache import BinariesUnavailable

log = structlog.get_logger("benchmarks")


@dataclass(frozen=True)
class Options:
    """The part of the command line that stages may read."""

    quick: bool
    share: float | None
    qps: float
    trace: Path | None
    before: Path | None
    units: int | None


@dataclass(frozen=True)
class Keep:
    """How often each stage is run, and where its figures go."""

    turns: int
    json: Path | None
    stores: bool


@dataclass(frozen=True)
class Stage:
    """One measurement: its name, a description, and its duration on two idle cores."""

    name: str
    says: str
    seconds: int
    run: Callable[[Options], list[Figure]]
    needs_cluster: bool = False


def _transport(options: Options) -> list[Figure]:
    patch = client_transport.measure(2_000 if options.quick else 10_000)
    watch = client_watch.measure(2_000 if options.quick else 10_000)
    ours, theirs = patch["transport"], patch["official"]
    return [
        Figure(
            name="client_patch_us",
            value=ours,
            unit="us",
            control=patch["http.client"],
            note="CPU of one TLS PATCH in the client; control: http.client",
        ),
        Figure(
            name="client_patch_official_us",
            value=ours,
            unit="us",
            control=theirs,
            note="the same; control: the official client, patch_namespaced_custom_object_status",
        ),
        Figure(
            name="client_event_us",
            value=watch["informer"],
            unit="us",
            control=watch["official"],
            note="CPU of one watch event of a pod; control: the official client's SharedInformer",
        ),
    ]


def _kueue_shape(options: Options) -> list[Figure]:
    return kueue_shape.run(_share(options))


def _kueue_shape_limited(options: Options) -> list[Figure]:
    return kueue_shape.run(_share(options), options.qps)


def _share(options: Options) -> float:
    return options.share or (0.05 if options.quick else 1.0)


STAGES = (
    # First: with what the next one leaves in memory, a choice takes 1.5 times as long.
    Stage(
        "preemption",
        "how long a choice of victims takes among 10,000 units that run",
        10,
        lambda options: preemption_figures.run(quick=options.quick),
    ),
    Stage(
        "engine",
        "decisions per second in memory with 1,000 and 100,000 units, and forks",
        75,
        lambda options: engine_figures.run(quick=options.quick),
    ),
    Stage(
        "accounts",
        "what it costs to count use by user: decisions, a charge, a copy, memory",
        20,
        lambda options: account_figures.run(quick=options.quick),
    ),
    Stage(
        "tenants",
        "what fair order, limits of users and budgets cost, as decisions beside those without",
        60,
        lambda options: tenant_figures.run(quick=options.quick),
    ),
    Stage(
        "backfill",
        "what a unit costs that passes a head and ends, beside those that wait behind it",
        10,
        lambda options: backfill_figures.run(quick=options.quick),
    ),
    Stage(
        "answers",
        "how long it takes to explain why a unit waits, while others are decided",
        15,
        lambda options: answer_figures.run(quick=options.quick),
    ),
    Stage(
        "forecast",
        "how long a renewal of forecasts takes, and a horizon of what-if; scores on a made trace",
        150,
        lambda options: [
            *forecast_figures.run(quick=options.quick),
            *score_figures.run(quick=options.quick, trace=options.trace),
        ],
    ),
    Stage(
        "audit",
        "what a round of the self-audit costs with 10,000 units, and how long it holds the lock",
        15,
        lambda options: audit_figures.run(quick=options.quick),
    ),
    Stage(
        "insight",
        "what telling the insight program everything costs, and what that program takes",
        30,
        lambda options: insight_figures.run(quick=options.quick),
    ),
    Stage(
        "insight_memory",
        "the insight program's memory, with its record, forecasts, and states of earlier times",
        300,
        lambda options: insight_memory.run(quick=options.quick),
    ),
    Stage(
        "visibility",
        "how long a page of 100,000 units takes for kubectl, and what is kept for the next",
        60,
        lambda options: visibility_figures.run(quick=options.quick),
    ),
    Stage(
        "replay",
        "jobs per second of a trace in virtual time, beside lives in memory without one",
        60,
        lambda options: replay_figures.run(quick=options.quick),
    ),
    Stage(
        "transport",
        "what one write and one watch event cost our client, and others",
        40,
        _transport,
    ),
    Stage(
        "scrape",
        "what a scrape of 500 queues costs the scheduler",
        10,
        lambda options: scrape.run(quick=options.quick),
    ),
    Stage(
        "probes",
        "how late a probe is beside 1,000 half-open connections on each port",
        15,
        lambda options: probe_lateness.run(quick=options.quick),
    ),
    Stage(
        "memory",
        "the scheduler's memory with 100,000 units, over HTTP from the fake API server",
        55,
        lambda options: scheduler_memory.run(10_000 if options.quick else scheduler_memory.UNITS),
    ),
    Stage(
        "many_queues",
        "100,000 units in 500 queues: memory, idle CPU, /debug/queues, forks; also of --before",
        300,
        lambda options: many_queues.run(options.before, quick=options.quick),
        needs_cluster=True,
    ),
    Stage(
        "controllers_memory",
        "the controllers' memory with 10,000 jobs and 50,000 pods, over HTTP from the fake",
        230,
        lambda options: controllers_memory.run(500 if options.quick else controllers_memory.JOBS),
    ),
    Stage(
        "job_cpu",
        "what a job of each kind costs the controllers, beside a batch Job",
        120,
        lambda options: job_cpu.run(10, 2) if options.quick else job_cpu.run(),
    ),
    Stage(
        "bare_loop",
        "units/s with the scheduler against a loop of the same writes; release to next start",
        95,
        lambda options: bare_loop.run(600 if options.quick else bare_loop.UNITS),
        needs_cluster=True,
    ),
    Stage(
        "crd_writes",
        "what the three writes of a unit cost the API server, with the CRDs of --before in turns",
        70,
        lambda options: crd_writes.run(options.before, quick=options.quick),
        needs_cluster=True,
    ),
    Stage(
        "status_writes",
        "what a PUT of a unit's status costs the API server, beside a merge patch",
        180,
        lambda options: status_writes.run(quick=options.quick),
        needs_cluster=True,
    ),
    Stage(
        "scheduler_threads",
        "what each thread of the scheduler uses for a unit, with --before in turns",
        220,
        lambda options: scheduler_threads.run(options.before, quick=options.quick),
        needs_cluster=True,
    ),
    Stage(
        "command_line",
        "how long a command takes, beside kubectl",
        60,
        lambda options: command_line_figures.run(require_binaries(), quick=options.quick),
        needs_cluster=True,
    ),
    Stage(
        "insight_cost",
        "units/s and release to next start with the insight program and the audit, and without",
        600,
        lambda options: insight_cost.run(quick=options.quick),
        needs_cluster=True,
    ),
    Stage(
        "page_cost",
        "release to next start and the scheduler's CPU with 200 open pages, and without",
        360,
        lambda options: page_cost.run(options.units, quick=options.quick),
        needs_cluster=True,
    ),
    Stage(
        "jobs",
        "real Jobs from creation to end through both programs",
        50,
        lambda options: job_lives.run(60 if options.quick else job_lives.JOB_COUNT),
        needs_cluster=True,
    ),
    Stage(
        "takeover",
        "killed leader to the next decision, with 20,000 units",
        500,
        lambda options: takeover.run(quick=options.quick),
        needs_cluster=True,
    ),
    Stage(
        "restart",
        "start of a scheduler to its first decision, with 50,000 units",
        120,
        lambda options: restart.run(quick=options.quick),
        needs_cluster=True,
    ),
    Stage(
        "job_shares",
        "what a real Job costs the controllers part by part, with --before in turns",
        220,
        lambda options: job_shares.run(options.before, quick=options.quick),
        needs_cluster=True,
    ),
    Stage(
        "kueue_shape",
        "15,000 units in 30 queues of 5 cohorts, made and ended by a player",
        175,
        _kueue_shape,
        needs_cluster=True,
    ),
    Stage(
        "kueue_shape_limited",
        "the same with a scheduler that may send 50 requests a second",
        370,
        _kueue_shape_limited,
        needs_cluster=True,
    ),
)


def main() -> int:
    """Run the given stages, by default all; print and write the figures."""
    match sys.argv[1:2]:
        case ["soak"]:
            return soak(sys.argv[2:])
        case ["report"]:
            return report(sys.argv[2:])
        case _:
            return _measure(sys.argv[1:])


def _measure(arguments: Sequence[str]) -> int:
    options, names, keep = _parse(arguments)
    stages = [stage for stage in STAGES if not names or stage.name in names]
    clock = SystemClock()
    configure_logs(log_format="console", level="error", clock=clock)
    figures: list[Figure] = []
    failed = False
    for stage in stages:
        print(f"{stage.name}: {stage.says} (about {stage.seconds} s)", flush=True)
        began = time.monotonic()
        try:
            found = medians([_run(stage, options) for _ in range(keep.turns)])
        except Exception:
            # The other stages are still useful.
            log.exception("the stage failed", stage=stage.name)
            failed = True
            continue
        print_figures(found)
        print(f"{stage.name}: took {time.monotonic() - began:.0f} s\n", flush=True)
        figures += found
        if keep.json is not None:
            write_json(figures, keep.json)
        if keep.stores and found:
            print(f"wrote {store(stage.name, found, keep.turns)}")
    return int(failed)


def _run(stage: Stage, options: Options) -> list[Figure]:
    if stage.needs_cluster:
        try:
            require_binaries()
        except BinariesUnavailable as reason:
            print(f"{stage.name}: left out, there is no control plane: {reason}")
            return []
    return stage.run(options)


def _parse(arguments: Sequence[str]) -> tuple[Options, list[str], Keep]:
    listed = "\n".join(f"  {stage.name:<12} {stage.says}" for stage in STAGES)
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description=__doc__,
        epilog=f"stages:\n{listed}\n\nreport --help and soak --help have options of their own.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "stages", nargs="*", metavar="STAGE", help="which; all of them when none is named"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    parser.add_argument("--turns", type=int, default=1, help="run each so often; take medians")
    parser.add_argument(
        "--store", action="store_true", help="write them where `report` makes BENCHMARKS.md of them"
    )
    parser.add_argument("--quick", action="store_true", help="a small part of each, in two minutes")
    parser.add_argument("--units", type=int, help="so many units that wait, in page_cost")
    parser.add_argument("--share", type=float, help="this part of the units of kueue_shape")
    parser.add_argument(
        "--kube-api-qps", type=float, default=50.0, help="the limit in kueue_shape_limited"
    )
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="score forecasts on this, in all worlds: hours"
    )
    parser.add_argument(
        "--before",
        type=Path,
        metavar="FOLDER",
        help="a checkout to compare with, where named above",
    )
    got = parser.parse_args(arguments)
    unknown = sorted(set(got.stages) - {stage.name for stage in STAGES})
    if unknown:
        parser.error(f"no such stage: {', '.join(unknown)}; there are\n{listed}")
    options = Options(got.quick, got.share, got.kube_api_qps, got.trace, got.before, got.units)
    if got.store and got.quick:
        parser.error("--quick measures a part only, which the report is not about")
    return options, got.stages, Keep(max(got.turns, 1), got.json, got.store)


if __name__ == "__main__":
    sys.exit(main())
