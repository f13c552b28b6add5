"""When units start and end, in the words of the wall's clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import NamedTuple

from koord_queue.answers.forecast import Forecast, QueueForecast, Times
from koord_queue.show.paragraphs import Line
from koord_queue.show.times import ago, clock_time, until
from koord_queue.show.words import counted
from shared_api.timestamps import read_time

FAR = "more than a week away"
"""The text for a time beyond the horizon of forecasts."""

NOT_KNOWN_YET = "notKnownYet"
"""The outlook of units of whose kind too few runs have ended."""

QUEUE_COLUMNS = ("NAMESPACE", "NAME", "EARLIEST", "MEDIAN", "LATEST", "ENDS")


class Wall(NamedTuple):
    """The present, and the reader's zone; None: that of the machine."""

    now: datetime
    zone: tzinfo | None = None

    def clock(self, text: str | None) -> str:
        """Return a time on the wall's clock; "" without one."""
        moment = read_time(text)
        return "" if moment is None else clock_time(moment, self.now, self.zone)

    def is_past(self, text: str | None) -> bool:
        """Return whether a time has passed, or passes now."""
        moment = read_time(text)
        return moment is not None and moment <= self.now


def forecast_lines(answer: Forecast, wall: Wall) -> Iterator[Line]:
    """Yield when a unit starts and ends, without arrivals too, and what that is based on."""
    if answer.no_times:
        yield from _no_times_lines(answer)
        return
    yield Line(f"{answer.name} {start_in_words(answer, wall)}.", "bold")
    yield Line(f"{_end_in_words(answer, wall)}.")
    alone = answer.without_arrivals
    yield Line(
        f"If nothing else were submitted, it {start_in_words(alone, wall)};"
        f" {_end_in_words(alone, wall, 'it')}."
    )
    yield from _basis_lines(answer, wall)


def new_forecast_text(answer: Forecast, wall: Wall) -> str:
    """Return when a unit that is not submitted yet would start and end."""
    if answer.no_times:
        text = _no_times_in_words(answer, "it")
        return f"{text[0].upper()}{text[1:]}."
    return f"It {start_in_words(answer, wall)}. {_end_in_words(answer, wall)}."


def start_text(answer: Forecast, wall: Wall) -> str:
    """Return when "it" starts, or why no time is known."""
    return (
        _no_times_in_words(answer, "it")
        if answer.no_times
        else f"it {start_in_words(answer, wall)}"
    )


def brief_start(answer: Forecast, wall: Wall) -> str:
    """Return the median start as "may start 14:05", or why no time is known.

    "" if the median is beyond the horizon.
    """
    if answer.no_times:
        is_early = answer.outlook == NOT_KNOWN_YET
        return f"start {answer.no_times}" if is_early else "does not start as things are"
    middle = wall.clock(answer.start_p50)
    if not middle:
        return ""
    return "may start at any moment" if wall.is_past(answer.start_p50) else f"may start {middle}"


def _no_times_in_words(answer: Forecast, name: str) -> str:
    if answer.outlook == NOT_KNOWN_YET:
        return f"when {name} starts is {answer.no_times}"
    return f"{name} {answer.no_times}"


def _no_times_lines(answer: Forecast) -> Iterator[Line]:
    if answer.outlook != NOT_KNOWN_YET:
        yield Line(f"{_no_times_in_words(answer, answer.name)}.", "bad", hang=2)
        return
    yield Line(f"When {answer.name} starts is {answer.no_times}.", "bold")
    runs = f"{counted(answer.needed_runs, 'run')} of its quota, user, kind and request"
    yield Line(f"Times are shown once {runs} have ended within eight days.", "dim")


def start_in_words(times: Forecast | Times, wall: Wall) -> str:
    """Return when a unit starts, from `starts` on: eight of ten futures, and the median.

    A unit that waits starts at no time that is past: such a one is left out.
    """
    first, middle, last = (
        wall.clock(each) for each in (times.start_p10, times.start_p50, times.start_p90)
    )
    if not middle:
        from_when = f", and not before {first}" if first else ""
        return f"starts {FAR}, more likely than not{from_when}"
    if wall.is_past(times.start_p50):
        late = f"after {last}" if last else FAR
        is_late = wall.is_past(times.start_p90)
        rest = "it is later than forecast" if is_late else f"in one of ten futures {late}"
        return f"may start at any moment; {rest}"
    soon = f"in {until(times.start_p50, wall.now)}"
    if first == middle == last:
        return f"starts at about {middle} ({soon})"
    rest = f"in half of the futures by {middle} ({soon})"
    if wall.is_past(times.start_p10):
        return f"starts {f'by {last}' if last else 'now or later'}, {rest}"
    if not last:
        return f"starts after {first}, {rest}; in one of ten futures {FAR}"
    return f"starts between {first} and {last}, {rest}"


def _end_in_words(times: Forecast | Times, wall: Wall, subject: str = "It") -> str:
    end = wall.clock(times.end_p50)
    return f"{subject} ends at about {end}" if end else f"{subject} ends {FAR}"


def _basis_lines(answer: Forecast, wall: Wall) -> Iterator[Line]:
    futures = f"{counted(answer.sample, 'future')} played {ago(answer.computed_at, wall.now)} ago"
    runs = f"{counted(answer.similar_runs, 'run')} like it in the last eight days"
    yield Line(f"Based on {futures}, and {runs}.", "dim")
    yield Line("One of ten starts earlier than the first time, one of ten later.", "dim")


def queue_rows(answer: QueueForecast, wall: Wall) -> list[tuple[str, ...]]:
    """Return the rows of `QUEUE_COLUMNS`, in the order of the queue.

    The median of a unit without times says why there are none.
    """
    return [(each.namespace, each.name, *_time_cells(each, wall)) for each in answer.units]


def _time_cells(answer: Forecast, wall: Wall) -> tuple[str, ...]:
    if answer.no_times:
        brief = answer.no_times if answer.outlook == NOT_KNOWN_YET else "not as things are"
        return ("-", brief, "-", "-")
    times = (answer.start_p10, answer.start_p50, answer.start_p90, answer.end_p50)
    return tuple(until(moment, wall.now) if moment else ">7d" for moment in times)
