"""Answers as lines for people: the sentence first, then what there is more of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from queue_scheduler.debug_api.forecast_routes import ForecastView, TimesView
from queue_scheduler.debug_api.try_views import TryView
from queue_scheduler.debug_api.views import ExplainView, QueueView, UnitView
from queue_scheduler.debug_api.what_if_routes import HorizonView, RefusedView, WhatIfView


def printable(line: str) -> str:
    """Return a line without control characters: a stranger's file must not move the cursor."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in line)


def tell_explanation(view: ExplainView) -> Iterator[str]:
    """Yield why a unit waits, each further reason, and what would start it."""
    yield view.summary
    for blocker in view.blockers[1:]:
        yield f"also: {blocker.message}"
    if view.changes is None:
        return
    for change in view.changes:
        enough = "" if change.sufficient else " (not sufficient alone)"
        yield f"it would start: {change.description}{enough}"
    if not view.changes:
        yield "no single change would start it now"


def tell_forecast(view: ForecastView) -> Iterator[str]:
    """Yield when a unit starts."""
    yield f"starts {_tell_times(view)}"
    yield f"if no other jobs arrive: {_tell_times(view.without_arrivals)}"
    yield f"ends about {view.end_p50 or 'beyond the forecast'}"
    yield f"{view.sample} futures from {view.computed_at}, seed {view.seed}"


def _tell_times(times: TimesView) -> str:
    if times.start_p50 is None:
        return "beyond the forecast"
    last = times.start_p90 or "beyond the forecast"
    return f"about {times.start_p50} (10 %: before {times.start_p10}; 90 %: before {last})"


def tell_try(view: TryView) -> Iterator[str]:
    """Yield what becomes of each job of a manifest."""
    for job in view.jobs:
        name = f"{job.namespace}/{job.name}" if job.namespace else job.name
        yield f"{job.kind} {name}: {job.summary}"
        for warning in job.warnings:
            yield f"  {warning.reason}: {warning.message}"
        changes = None if job.explanation is None else job.explanation.changes
        yield from (f"  it would start: {each.description}" for each in changes or ())
    for each in view.not_looked_up:
        yield f"not looked up: {each}"


def tell_what_if(view: WhatIfView) -> Iterator[str]:
    """Yield what edits change."""
    counts = (view.started_count, view.refused_count, view.evicted_count)
    yield "{} start, {} wait for another reason, {} are evicted".format(*counts)
    yield from (f"starts: {each.unit}" for each in view.started)
    yield from (_tell_refused(each) for each in view.refused)
    for each in view.evicted:
        reason = f"{each.reason}, for {each.for_unit}" if each.for_unit else each.reason
        yield f"evicted: {each.unit} ({reason}; {each.lost_hours:g} h lost)"
    yield from (f"no longer evicted: {each}" for each in view.spared)
    yield from (f"not read by the scheduler: {path}" for path in view.unread)
    if view.horizon is not None:
        yield from _tell_horizon(view.horizon)


def _tell_refused(each: RefusedView) -> str:
    said = "it has no turn" if each.refusal is None else each.refusal.message
    return f"waits: {each.unit}: {said}"


def _tell_horizon(view: HorizonView) -> Iterator[str]:
    yield f"within {view.seconds:g} s, {view.paths} futures, seed {view.seed}: {view.basis}"
    for what, places in (("queue", view.queues), ("quota", view.quotas)):
        for place in places:
            wait = place.wait_p50
            if wait is not None and wait.difference.p50 is not None:
                clear = "" if wait.is_clear else " (not clear)"
                yield f"{what} {place.name}: median wait {wait.difference.p50:+.0f} s{clear}"


def tell_units(units: Iterable[UnitView]) -> Iterator[str]:
    """Yield a line for each unit."""
    for each in units:
        message = "" if each.refusal is None else each.refusal.message
        place = f"{each.namespace}/{each.name}  {each.standing}  queue {each.queue or '-'}"
        yield f"{place}  quota {each.quota or '-'}  {message}".rstrip()


def tell_queues(queues: Iterable[QueueView]) -> Iterator[str]:
    """Yield a line for each queue."""
    for each in queues:
        counts = f"{each.pending} pending, {each.admitted} admitted"
        yield f"{each.name}  {each.policy}  {counts}"
