"""What becomes of a manifest, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from koord_queue.answers.tried import Tried, TriedJob
from koord_queue.show.explanation import blocker_lines, change_lines
from koord_queue.show.forecasts import Wall, new_forecast_text
from koord_queue.show.paragraphs import BLANK, Line
from koord_queue.show.words import amounts, listed


def tried_lines(answer: Tried, wall: Wall, *, shows_all: bool = False) -> Iterator[Line]:
    """Yield what becomes of each job, and what the answer may depend on besides.

    Args:
        answer: What becomes of the manifest.
        wall: The time, and the zone that it is shown in.
        shows_all: Whether long lists are not cut.
    """
    for number, job in enumerate(answer.jobs):
        if number:
            yield BLANK
        yield from _job_lines(job, wall, shows_all=shows_all)
    if answer.no_forecast:
        yield BLANK
        yield Line(f"No forecast: {answer.no_forecast}", "dim")
    if answer.not_looked_up:
        yield BLANK
        yield Line(f"Not looked up: {'; '.join(answer.not_looked_up)}.", "dim", hang=2)
    if not answer.defaulted:
        yield Line("Defaults and webhooks of the API server are not in this answer.", "dim")


def _job_lines(job: TriedJob, wall: Wall, *, shows_all: bool) -> Iterator[Line]:
    name = f"{job.namespace}/{job.name}" if job.namespace else job.name
    yield Line(f"{job.kind} {name}: {job.summary}", _style_of(job))
    for each in job.errors:
        field = f"{each.field}: " if each.field else ""
        yield Line(f"error: {field}{each.message}", "bad", indent=2, hang=2)
    for warning in job.warnings:
        yield Line(f"{warning.reason}: {warning.message}", "warn", indent=2, hang=2)
    yield from _unit_lines(job)
    if job.explanation is not None:
        yield from blocker_lines(job.explanation, shows_all=shows_all)
    if job.forecast is not None:
        yield BLANK
        yield Line(new_forecast_text(job.forecast, wall))
    if job.explanation is not None and job.explanation.changes is not None:
        is_complete = job.explanation.changes_complete is not False
        yield from change_lines(
            job.explanation.changes, is_complete=is_complete, shows_all=shows_all
        )


def _unit_lines(job: TriedJob) -> Iterator[Line]:
    if not job.unit:
        return
    where = f"unit {job.unit}, quota {job.quota or 'none'}, priority {job.priority}"
    yield Line(f"{where}; requests {amounts(job.request)}", "dim", indent=2, hang=2)
    if job.also_starts or job.other_starts:
        yield Line(f"starts before it: {listed(job.also_starts, job.other_starts)}", indent=2)
    if job.evicts or job.other_units:
        named = listed(job.evicts, job.other_units)
        yield Line(f"evicted for it: {named}", "warn", indent=2, hang=2)


def _style_of(job: TriedJob) -> str:
    if job.errors or not job.unit:
        return "bad" if job.errors else "warn"
    has_started = job.exists and job.starts_now is None and job.explanation is None
    return "good" if job.starts_now or has_started else "warn"
