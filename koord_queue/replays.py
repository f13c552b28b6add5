"""A replay for programs: a trace of jobs against quotas and policies, without a cluster."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from msgspec.structs import replace as with_fields

from koord_queue.answers.replay import PlayedJob, Replay, Run
from koord_queue.errors import EXIT_USAGE, CommandError
from koord_queue.show.plots import Plot, line_plot
from queue_insight.replay import command
from queue_insight.replay.jobs import TraceError
from queue_insight.replay.quota_files import Objects as QuotaObjects
from queue_insight.replay.quota_files import read_queues, read_quotas
from queue_insight.replay.replay_run import Outcome, Settings
from queue_insight.replay.replay_run import replay as play
from queue_insight.replay.replayed_world import World, policy_names
from queue_insight.replay.report import build_report
from queue_insight.replay.tally import Life
from queue_insight.replay.trace_files import read_trace
from shared_api.program_flags import ConfigurationError, FlagError

Json = dict[str, Any]
Jobs = str | Path | Sequence[Mapping[str, object]]
"""A trace: a file, or jobs as rows with the columns of docs/replay.md."""
Objects = str | Path | Sequence[Mapping[str, Any]]
"""Quotas or queues: a file, the text of YAML, or objects."""

__all__ = ["CommandError", "Jobs", "Objects", "plot_queue_length", "plot_waits", "replay"]


def replay(  # noqa: PLR0913 - the options of the command, by their names
    trace: Jobs,
    quotas: Objects,
    *,
    queues: Objects | None = None,
    config: str | Path | None = None,
    policy: str = "",
    name: str = "",
    compare: Sequence[str] = (),
    compare_quotas: Mapping[str, Objects] | None = None,
    form: str = "",
    default_quota: str = "",
    start_seconds: float = 0.0,
    stop_seconds: float = 0.0,
) -> Replay:
    """Return what a trace of jobs would have met: who waits, how long, and for what.

    Args:
        trace: A file in one of the forms of docs/replay.md, or rows.
        quotas: A file, a text or objects; Nodes among them say how much there is.
        queues: The same; default: one for each quota.
        config: The scheduler's configuration file.
        policy: The policy of all queues; default: their own.
        name: The name of this run; default: its policy, or `as configured`.
        compare: Replay again with each of these policies.
        compare_quotas: Replay again with each of these quotas, under that name.
        form: The form of the trace; default: found by its name and first line.
        default_quota: The quota of jobs that name none.
        start_seconds: From an admission until the pods run.
        stop_seconds: From an eviction until the pods are gone.

    Raises:
        CommandError: A file or a name is wrong; the message names the file and the line.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            files = _Files(Path(folder))
            path = files.trace(trace)
            own_form, jobs = read_trace(path, form)
            objects = read_quotas(files.objects("quotas.yaml", quotas))
            if queues is not None:
                own = read_queues(files.objects("queues.yaml", queues))
                objects = with_fields(objects, queues=own)
            world = World(
                objects=objects,
                configuration=command.read_configuration(None if config is None else Path(config)),
            )
            settings = Settings(
                path=str(path),
                default_quota=default_quota,
                start_seconds=start_seconds,
                stop_seconds=stop_seconds,
            )
            others = {
                other: read_quotas(files.objects(f"{other}.yaml", each))
                for other, each in (compare_quotas or {}).items()
            }
            worlds = _worlds(world, (policy, *compare), others)
            runs = [(label, play(each, jobs, settings, _ignore_progress)) for label, each in worlds]
            runs[0] = (name or runs[0][0], runs[0][1])
        except (TraceError, FlagError, ConfigurationError, OSError) as error:
            # What was handed in as values has a name, and no folder.
            text = str(error).replace(f"{folder}/", "")
            raise CommandError(text, exit_code=EXIT_USAGE) from error
    report = build_report(path.name, own_form, jobs, 0, runs)
    return _read_report(report, runs)


def _worlds(
    world: World, policies: Sequence[str], others: Mapping[str, QuotaObjects]
) -> Iterator[tuple[str, World]]:
    """Yield what is replayed: with each policy, then with the first and other quotas."""
    known = policy_names()
    for name in policies:
        if name and name not in known:
            raise TraceError(f"there is no policy {name}; known: {', '.join(known)}")
        yield name or command.AS_CONFIGURED, with_fields(world, policy=name)
    for name, each in others.items():
        objects = with_fields(each, queues=world.objects.queues)
        yield name, with_fields(world, policy=policies[0], objects=objects)


def _ignore_progress(_share: float) -> None:
    """Report no progress."""


def _read_report(report: Json, runs: Sequence[tuple[str, Outcome]]) -> Replay:
    found = msgspec.convert(report["runs"], list[Run])
    own = [
        with_fields(run, jobs=tuple(map(_read_life, outcome.lives)))
        for run, (_, outcome) in zip(found, runs, strict=True)
    ]
    return Replay(runs=tuple(own), report=report)


def _read_life(life: Life) -> PlayedJob:
    return PlayedJob(
        name=life.job.name,
        tenant=life.tenant,
        submitted=life.submit,
        wait=None if life.admitted is None else life.wait,
        finished=life.finished,
        evictions=life.evictions,
    )


class _Files:
    """Writes what was handed in as values, so that errors name lines as those of files do."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def trace(self, trace: Jobs) -> Path:
        """Return the file of a trace."""
        if isinstance(trace, str | Path):
            return Path(trace)
        path = self._folder / "trace.csv"
        columns = list(dict.fromkeys(name for row in trace for name in row))
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(trace)
        return path

    def objects(self, name: str, objects: Objects) -> Path:
        """Return the file of objects."""
        if isinstance(objects, Path) or (isinstance(objects, str) and "\n" not in objects):
            return Path(objects)
        text = objects if isinstance(objects, str) else yaml.safe_dump_all(map(dict, objects))
        path = self._folder / name
        path.write_text(text, encoding="utf-8")
        return path


# --- plots --------------------------------------------------------------------------------------

HOUR: Final = 3600.0


def plot_waits(played: Replay) -> Plot:
    """Return a plot of the hours that jobs waited: by the share of jobs that waited less."""
    lines = {
        run.name: [
            (5.0 * place, wait / HOUR) for place, wait in enumerate(run.waits.all.every5_percent)
        ]
        for run in played.runs
    }
    return line_plot("How long jobs waited", lines, "% of the jobs", "hours, at most")


def plot_queue_length(played: Replay) -> Plot:
    """Return a plot of how many jobs waited, over the hours of the trace."""
    lines = {
        run.name: [
            (place * run.step_seconds / HOUR, count)
            for place, count in enumerate(run.queue_length.total)
        ]
        for run in played.runs
    }
    return line_plot("How many jobs waited", lines, "hours since the first job", "jobs")
