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
"""Beyond the horizon of forecasts."""

QUEUE_COLUMNS = ("NAMESPACE", "NAME", "EARLIEST", "MEDIAN", "LATEST", "ENDS")


class Wall(NamedTuple):
    """The present, and the reader's zone; None: that of the machine."""

    now: datetime
    zone: tzinfo | None = None

    def clock(self, text: str | None) -> str:
        """Return a time on the wall's clock; "" without one."""
        moment = read_time(text)
        return "" if moment is None else clock_time(moment, self.now, self.zone)


def tell_forecast(answer: Forecast, wall: Wall) -> Iterator[Line]:
    """Yield when a unit starts and ends, without arrivals too, and what that is based on."""
    yield Line(f"{answer.name} {start_in_words(answer, wall)}.", "bold")
    yield Line(f"{_end_in_words(answer, wall)}.")
    alone = answer.without_arrivals
    yield Line(
        f"If nothing else were submitted, it {start_in_words(alone, wall)};"
        f" {_end_in_words(alone, wall, 'it')}."
    )
    yield from _tell_basis(answer, wall)


def tell_new_forecast(answer: Forecast, wall: Wall) -> str:
    """Return when a unit that is not submitted yet would start and end."""
    return f"It {start_in_words(answer, wall)}. {_end_in_words(answer, wall)}."


def start_in_words(times: Times, wall: Wall) -> str:
    """Return when a unit starts, from `starts` on: eight of ten futures, and the median."""
    first, middle, last = (
        wall.clock(each) for each in (times.start_p10, times.start_p50, times.start_p90)
    )
    if not middle:
        from_when = f", and not before {first}" if first else ""
        return f"starts {FAR}, more likely than not{from_when}"
    soon = f"in {until(times.start_p50, wall.now)}"
    if first == middle == last:
        return f"starts at about {middle} ({soon})"
    rest = f"as likely as not by {middle} ({soon})"
    if not last:
        return f"starts after {first}, {rest}; in one of ten futures {FAR}"
    return f"starts between {first} and {last}, {rest}"


def _end_in_words(times: Times, wall: Wall, subject: str = "It") -> str:
    end = wall.clock(times.end_p50)
    return f"{subject} ends at about {end}" if end else f"{subject} ends {FAR}"


def _tell_basis(answer: Forecast, wall: Wall) -> Iterator[Line]:
    futures = f"{counted(answer.sample, 'future')} played {ago(answer.computed_at, wall.now)} ago"
    runs = f"{counted(answer.similar_runs, 'run')} like it in the last eight days"
    yield Line(f"Based on {futures}, and {runs}.", "dim")
    yield Line("One of ten starts earlier than the first time, one of ten later.", "dim")


def queue_rows(answer: QueueForecast, wall: Wall) -> list[tuple[str, ...]]:
    """Return the rows of `QUEUE_COLUMNS`, in the order of the queue."""
    return [
        (
            each.namespace,
            each.name,
            *(
                until(moment, wall.now) if moment else ">7d"
                for moment in (each.start_p10, each.start_p50, each.start_p90, each.end_p50)
            ),
        )
        for each in answer.units
    ]
