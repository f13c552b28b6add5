"""What edits would change, in sentences and rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeGuard

from koord_queue.answers.refusal import Refusal
from koord_queue.answers.what_if import (
    Comparison,
    Evicted,
    Horizon,
    Place,
    Refused,
    Resource,
    Spread,
    Started,
    WhatIf,
)
from koord_queue.show.paragraphs import BLANK, Line, heading
from koord_queue.show.words import counted, short, short_seconds
from shared_api.durations import seconds_in_words
from shared_api.quantity import format_amount

HORIZON_COLUMNS: Final = ("OF", "WHAT", "BEFORE", "AFTER", "DIFFERENCE")
ENDED: Final = "units-ended"


def what_if_lines(answer: WhatIf) -> Iterator[Line]:
    """Yield what changes at once: what starts, waits, is evicted."""
    yield Line(_sentence(answer), "bold")
    if answer.started:
        yield from heading("Starts")
        yield from (_started_line(each) for each in answer.started)
        yield from _rest_lines(answer.started_count - len(answer.started))
    if answer.refused:
        yield from heading("Waits for another reason")
        yield from (_refused_line(each) for each in answer.refused)
        yield from _rest_lines(answer.refused_count - len(answer.refused))
    if answer.evicted:
        yield from heading("Evicted")
        yield from (_evicted_line(each) for each in answer.evicted)
        yield from _rest_lines(answer.evicted_count - len(answer.evicted))
    if answer.spared:
        yield from heading("No longer evicted")
        yield from (Line(each, indent=2) for each in answer.spared)
        yield from _rest_lines(answer.spared_count - len(answer.spared))
    yield from _doubt_lines(answer)


def _sentence(answer: WhatIf) -> str:
    started, refused, evicted = answer.started_count, answer.refused_count, answer.evicted_count
    if not (started or refused or evicted or answer.spared_count):
        return "Nothing changes at once."
    starts = f"{counted(started, 'unit')} {'starts' if started == 1 else 'start'}"
    waits = f"{refused} {'waits' if refused == 1 else 'wait'} for another reason"
    leaves = f"{evicted} {'is' if evicted == 1 else 'are'} evicted"
    lost = f" ({answer.lost_hours:g} h of their pods' work is lost)" if answer.lost_hours else ""
    return f"{starts}, {waits}, {leaves}{lost}."


def _started_line(each: Started) -> Line:
    waited = f"; it waits now: {each.before.message}" if each.before else ""
    return Line(f"{each.unit} (queue {each.queue}){waited}", "good", indent=2, hang=2)


def _refused_line(each: Refused) -> Line:
    now = _why(each.refusal)
    instead = "; without the edits it would start" if each.would_start else ""
    before = f"; before: {each.before.message}" if each.before and not each.would_start else ""
    return Line(f"{each.unit} (queue {each.queue}): {now}{instead}{before}", indent=2, hang=2)


def _why(refusal: Refusal | None) -> str:
    return "it has no turn" if refusal is None else refusal.message


def _evicted_line(each: Evicted) -> Line:
    cause = f", for {each.for_unit}" if each.for_unit else ""
    lost = f"{each.lost_hours:g} h of work is lost"
    return Line(f"{each.unit} ({each.reason}{cause}): {lost}", "bad", indent=2, hang=2)


def _rest_lines(more: int) -> Iterator[Line]:
    if more > 0:
        yield Line(f"and {more} more", indent=2)


def _doubt_lines(answer: WhatIf) -> Iterator[Line]:
    doubts = [f"The scheduler does not read {path}." for path in answer.unread]
    doubts += [f"Plugin {each} could not be asked." for each in answer.without_plugins]
    if not answer.complete:
        doubts.append("Not all decisions were followed to their end: there are too many.")
    if doubts:
        yield BLANK
        yield from (Line(each, "warn") for each in doubts)


# --- over a time --------------------------------------------------------------------------------


def horizon_lines(view: Horizon) -> Iterator[Line]:
    """Yield how far was looked ahead, on what basis, and which differences have a row."""
    within = seconds_in_words(view.seconds)
    futures = f"{counted(view.paths, 'future')}, seed {view.seed}"
    yield BLANK
    yield Line(f"Within {within} ({futures}; the median, and eight of ten):", "bold")
    if view.basis:
        yield Line(f"Based on {view.basis}.", "dim", indent=2, hang=2)
    if not horizon_rows(view):
        yield Line(
            "No wait, no number of ended units and no use of a resource differs in the same"
            " direction in eight of ten futures.",
            indent=2,
            hang=2,
        )


def horizon_rows(view: Horizon) -> list[tuple[str, ...]]:
    """Return the rows of `HORIZON_COLUMNS`: waits, ended units, and use.

    A difference that is not clear has none: it is chance, or there is no difference.
    """
    rows: list[tuple[str, ...]] = []
    if _is_clear(view.completed):
        rows.append(("all", ENDED, *_counts(view.completed)))
    for kind, places in (("queue", view.queues), ("quota", view.quotas)):
        for place in places:
            rows += _rows_of(f"{kind}/{place.name}", place, view.seconds)
    rows += [_row_of_use(each) for each in view.resources if each.used.is_clear]
    return rows


def _rows_of(name: str, place: Place, horizon: float) -> Iterator[tuple[str, ...]]:
    for what, found in (("wait-p50", place.wait_p50), ("wait-p90", place.wait_p90)):
        if _is_clear(found):
            yield (name, what, *_waits(found, horizon))
    if _is_clear(place.completed):
        yield (name, ENDED, *_counts(place.completed))


def _is_clear(found: Comparison | None) -> TypeGuard[Comparison]:
    return found is not None and found.is_clear


def _waits(found: Comparison, horizon: float) -> tuple[str, ...]:
    def show(seconds: float | None) -> str:
        return f">{short_seconds(horizon)}" if seconds is None else short_seconds(seconds)

    difference = _signed(found.difference.p50, lambda seconds: short_seconds(abs(seconds)))
    return (_spread(found.before, show), _spread(found.after, show), difference)


def _counts(found: Comparison) -> tuple[str, ...]:
    def show(count: float | None) -> str:
        return "?" if count is None else f"{count:g}"

    difference = _signed(found.difference.p50, lambda count: f"{abs(count):g}")
    return (_spread(found.before, show), _spread(found.after, show), difference)


def _row_of_use(each: Resource) -> tuple[str, ...]:
    found = each.used.difference.p50
    difference = format_amount(each.resource, abs(round(found or 0)))
    before, after, shown = short(each.resource, each.before, each.after, difference)
    return ("all", f"{each.resource}-used", before, after, _signed(found, lambda _: shown))


def _signed(difference: float | None, show: Callable[[float], str]) -> str:
    if difference is None:
        return "?"
    return f"{'-' if difference < 0 else '+'}{show(difference)}"


def _spread(spread: Spread, show: Callable[[float | None], str]) -> str:
    low, middle, high = (show(each) for each in (spread.p10, spread.p50, spread.p90))
    return middle if low == middle == high else f"{middle}({low}..{high})"
