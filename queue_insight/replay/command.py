"""A replay as a user asks for it: options in, files and lines out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

import msgspec
from msgspec.structs import replace

from queue_insight.forecast.model_loading import load_run_time_model
from queue_insight.replay.html_report import build_page
from queue_insight.replay.jobs import Trace, TraceError, tenants_as_users
from queue_insight.replay.margins import raise_quota
from queue_insight.replay.progress import Progress
from queue_insight.replay.quota_files import read_queues, read_quotas
from queue_insight.replay.replay_run import Outcome, Settings, replay
from queue_insight.replay.replayed_world import World, policy_names
from queue_insight.replay.report import (
    Json,
    build_report,
    describe_margin,
    to_bytes,
    worst_first,
)
from queue_insight.replay.score_command import ScoreOptions, score_report_lines, score_trace
from queue_insight.replay.trace_files import read_trace
from queue_scheduler.configuration import KoordQueueConfiguration, load_configuration
from shared_api.durations import seconds_in_words
from shared_api.process.clock import Clock

MARGINS: Final = 3
AS_CONFIGURED: Final = "as configured"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for; the names are those of the flags. A trace that is missing is `.`."""

    trace: Path
    quotas: Path | None
    queues: Path | None
    config: Path | None
    policy: str
    compare: tuple[str, ...]
    format: str
    default_quota: str
    tenants_as_users: bool
    start_seconds: float
    stop_seconds: float
    seed: int
    json: Path | None
    report: Path | None
    marginal: bool
    scores: ScoreOptions


def run(options: Options, out: TextIO, err: TextIO, clock: Clock) -> None:
    """Replay, write the files, and show the most important numbers.

    Raises:
        TraceError: An option or a file is wrong; the message names it, and the line.
        FlagError: A name or a number in a file is wrong.
        ConfigurationError: The configuration file is.
    """
    try:
        if options.scores.score_forecasts:
            lines = score_report_lines(_score(options, err, clock))
        else:
            lines = report_lines(_write_report(options, err, clock))
    except OSError as error:
        raise TraceError(f"{error.filename}: {error.strerror}") from error
    out.writelines(f"{line}\n" for line in lines)


def _write_report(options: Options, err: TextIO, clock: Clock) -> Json:
    report = _replay(options, err, clock)
    if options.json is not None:
        options.json.write_bytes(to_bytes(report))
    if options.report is not None:
        options.report.write_text(build_page(report), encoding="utf-8")
    return report


def _score(options: Options, err: TextIO, clock: Clock) -> Json:
    _check_files(options)
    report = score_trace(
        options.trace,
        options.format,
        options.seed,
        options.scores,
        load_run_time_model(),
        lambda runs: Progress(err, clock, runs),
    )
    if options.json is not None:
        options.json.write_bytes(to_bytes(report))
    return report


# --- the replays --------------------------------------------------------------------------------


def _replay(options: Options, err: TextIO, clock: Clock) -> Json:
    _check_files(options)
    form, trace = read_trace(options.trace, options.format)
    if options.tenants_as_users:
        trace = tenants_as_users(trace)
    world = _read_world(options)
    others = [_read_other(world, name) for name in options.compare]
    settings = Settings(
        path=str(options.trace),
        default_quota=options.default_quota,
        start_seconds=options.start_seconds,
        stop_seconds=options.stop_seconds,
    )
    _describe_skipped(options.trace, trace, err)
    count = 1 + len(others) + (MARGINS if options.marginal else 0)
    progress = Progress(err, clock, count)
    runs: list[tuple[str, Outcome]] = []
    try:
        for name, each in [(options.policy or AS_CONFIGURED, world), *others]:
            progress.start(name)
            runs.append((name, replay(each, trace, settings, progress.show)))
        report = build_report(options.trace.name, form, trace, options.seed, runs)
        if options.marginal:
            report["marginal"] = list(_margins(report, world, trace, settings, progress))
    finally:
        progress.end()
    return report


def _check_files(options: Options) -> None:
    """Check that there is a trace, and that results can be written, before much work is done."""
    if options.trace == Path():
        raise TraceError("--trace is missing: the file with the jobs")
    for path in (options.json, options.report):
        if path is not None and not path.absolute().parent.is_dir():
            raise TraceError(f"{path}: there is no folder {path.absolute().parent}")
        if path is not None and path.is_dir():
            raise TraceError(f"{path}: it is a folder")


def _read_world(options: Options) -> World:
    if options.quotas is None:
        raise TraceError("--quotas is missing: the file with the quotas")
    objects = read_quotas(options.quotas)
    if options.queues is not None:
        objects = replace(objects, queues=read_queues(options.queues))
    if options.policy:
        _check_policy("--policy", options.policy)
    return World(
        objects=objects, configuration=read_configuration(options.config), policy=options.policy
    )


def read_configuration(path: Path | None) -> KoordQueueConfiguration | None:
    """Return the scheduler's configuration of a file; None without one.

    Raises:
        ConfigurationError: It cannot be read.
    """
    return None if path is None else load_configuration(str(path))


def _check_policy(flag: str, name: str) -> None:
    known = policy_names()
    if name not in known:
        also = " (nor is there a file of that name)" if flag == "--compare" else ""
        raise TraceError(f"{flag} {name}: there is no such policy{also}; known: {', '.join(known)}")


def _read_other(world: World, name: str) -> tuple[str, World]:
    """Return a replay to compare with: other quotas if there is such a file, else a policy."""
    path = Path(name)
    if path.is_file():
        other = read_quotas(path)
        objects = replace(other, queues=world.objects.queues)
        return path.name, replace(world, objects=objects)
    _check_policy("--compare", name)
    return name, replace(world, policy=name)


def _margins(
    report: Json, world: World, trace: Trace, settings: Settings, progress: Progress
) -> Iterator[Json]:
    first = report["runs"][0]
    done = 0
    seen: set[tuple[str, str]] = set()
    for what in first["bottlenecks"]:
        key = (what["quota"], what["resource"])
        raised = raise_quota(world.objects, *key)
        if raised is None or key in seen:
            continue
        seen.add(key)
        objects, more = raised
        progress.start(f"{what['quota']} + {more} {what['resource']}")
        outcome = replay(replace(world, objects=objects), trace, settings, progress.show)
        yield describe_margin(what, more, first, outcome)
        done += 1
        if done == MARGINS:
            return


def _describe_skipped(path: Path, trace: Trace, err: TextIO) -> None:
    counts = ", ".join(f"{count} where {why}" for why, count in trace.skipped.items())
    if counts:
        err.write(f"{path}: rows that are left out: {counts}\n")


# --- what is shown ------------------------------------------------------------------------------

SHOWN: Final = 5
"""Tenants, and users, that waited longest."""

_COLUMNS: Final = ("p50", "p90", "p99", "max")


def report_lines(report: Json) -> Iterator[str]:
    """Yield the most important numbers as lines."""
    trace = report["trace"]
    yield f"{trace['jobs']} jobs within {seconds_in_words(trace['seconds'])}"
    yield ""
    heads = "".join(f"{name:>12}" for name in ("waited 1 min", *_COLUMNS))
    yield f"{'waits':<24}{'jobs':>9} {heads}"
    for a_run in report["runs"]:
        yield _row(a_run["name"], a_run["waits"]["all"])
        tenants = a_run["waits"]["byTenant"]
        for tenant in worst_first(tenants)[:SHOWN]:
            yield _row(f"  {tenant}", tenants[tenant])
        users = {} if a_run["users"] is None else a_run["users"]["waits"]
        for user in worst_first(users)[:SHOWN]:
            yield _row(f"  user {user}", users[user])
    yield ""
    for a_run in report["runs"]:
        yield from _run_lines(a_run)
    for margin in report["marginal"]:
        saved = margin["savedWaitHours"]
        effect = f"{abs(saved):.1f} h {'less' if saved >= 0 else 'longer'}"
        more = f"{margin['more']} {margin['resource']} more in quota {margin['quota']}"
        yield f"{more}: all jobs together wait {effect}"


def _row(name: str, waits: Json) -> str:
    share = waits["waited"] / waits["jobs"] if waits["jobs"] else 0.0
    cells = "".join(f"{seconds_in_words(waits[column]):>12}" for column in _COLUMNS)
    return f"{name:<24}{waits['jobs']:>9} {share:>12.0%}{cells}"


def _run_lines(a_run: Json) -> Iterator[str]:
    name = a_run["name"]
    ended = seconds_in_words(a_run["seconds"])
    yield f"{name}: ended after {ended}, {a_run['evictions']} evictions"
    if (users := a_run["users"]) is not None:
        tenants = a_run["fairness"]["jain"]
        index = f"{tenants:.3f} of tenants, {users['jain']:.3f} of {users['count']} users"
        yield f"{name}: Jain's index {index}"
    for what in a_run["bottlenecks"][:MARGINS]:
        quota = f"quota {what['quota']}" if what["quota"] else "no quota"
        resource = f", {what['resource']}" if what["resource"] else ""
        hours = f"{what['jobHours']:.1f} job-hours"
        yield f"{name}: {hours} behind {quota}{resource} ({what['reason']})"
    for never in a_run["neverStarted"]:
        yield f"{name}: {never['count']} jobs never started: {never['why']}"
    for free in a_run["requestNothing"]:
        tenant, jobs = free["tenant"], free["jobs"]
        yield f"{name}: {jobs} jobs of {tenant} request nothing that their quota limits"
