"""What edits would change, in sentences and rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koord_queue.answers.refusal import Refusal
from koord_queue.answers.what_if import (
    Comparison,
    Evicted,
    Horizon,
    Place,
    Refused,
    Spread,
    Started,
    WhatIf,
)
from koord_queue.show.paragraphs import BLANK, Line, heading
from koord_queue.show.words import counted
from shared_api.durations import seconds_in_words

HORIZON_COLUMNS: Final = ("OF", "WHAT", "BEFORE", "AFTER", "DIFFERENCE", "CLEAR")


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
    """Yield how far was looked ahead, and on what basis."""
    within = seconds_in_words(view.seconds)
    futures = f"{counted(view.paths, 'future')}, seed {view.seed}"
    yield BLANK
    yield Line(f"Within {within} ({futures}; the median, and eight of ten):", "bold")
    if view.basis:
        yield Line(f"Based on {view.basis}.", "dim", indent=2, hang=2)


def horizon_rows(view: Horizon) -> list[tuple[str, ...]]:
    """Return the rows of `HORIZON_COLUMNS`: waits, ends, and use."""
    rows = []
    if view.completed is not None:
        rows.append(("all", "ended", *_numbers(view.completed)))
    for kind, places in (("queue", view.queues), ("quota", view.quotas)):
        for place in places:
            rows += _rows_of(f"{kind}/{place.name}", place)
    for each in view.resources:
        rows.append(("all", each.resource, each.before, each.after, "-", _clear(each.used)))
    return rows


def _rows_of(name: str, place: Place) -> Iterator[tuple[str, ...]]:
    for what, found in (("wait-p50", place.wait_p50), ("wait-p90", place.wait_p90)):
        if found is not None:
            yield (name, what, *_waits(found))
    if place.completed is not None:
        yield (name, "ended", *_numbers(place.completed))


def _waits(found: Comparison) -> tuple[str, ...]:
    difference = found.difference.p50
    shown = "?" if difference is None else f"{'-' if difference < 0 else '+'}{_short(difference)}"
    return (_spread_of_waits(found.before), _spread_of_waits(found.after), shown, _clear(found))


def _spread_of_waits(spread: Spread) -> str:
    low, middle, high = (
        ">" if each is None else _short(each) for each in (spread.p10, spread.p50, spread.p90)
    )
    return middle if low == middle == high else f"{middle}({low}..{high})"


def _short(seconds: float) -> str:
    return seconds_in_words(seconds).replace(" min", "m").replace(" ", "")


def _numbers(found: Comparison) -> tuple[str, ...]:
    difference = found.difference.p50
    shown = "?" if difference is None else f"{difference:+g}"
    return (_spread(found.before), _spread(found.after), shown, _clear(found))


def _spread(spread: Spread) -> str:
    low, middle, high = (
        "?" if each is None else f"{each:g}" for each in (spread.p10, spread.p50, spread.p90)
    )
    return middle if low == middle == high else f"{middle}({low}..{high})"


def _clear(found: Comparison) -> str:
    return "yes" if found.is_clear else "no"
